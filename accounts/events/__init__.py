"""The event feed (D40 to D42): sequencing, queries, warnings."""
