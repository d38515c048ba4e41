"""What people do and see, in a real Chromium."""
