"""Outgoing mail: an outbox in the database, and the threads that send it."""
