"""Checks of any deployment against the contract, from outside: over HTTP, with nothing but a key."""
