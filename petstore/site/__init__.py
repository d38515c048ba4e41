"""Pages outside /v1, for people and for programs."""
