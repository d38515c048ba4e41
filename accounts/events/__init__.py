"""The feed of events (D40 to D42): numbering, reading, and warnings."""
