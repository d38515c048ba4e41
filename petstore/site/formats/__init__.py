"""Date formats; Django reads `en.formats`."""
