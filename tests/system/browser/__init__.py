"""End-to-end tests of the pages, in a real Chromium."""
