"""Pages for customers, under /account/ (D46)."""
