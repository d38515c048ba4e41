"""How dates are written, everywhere: Django reads `en.formats`."""
