"""The feed of events (D40 to D42): numbering, reading, clearing, and warnings."""
