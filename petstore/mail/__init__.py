"""Outgoing emails: a queue in the database, and the threads that send them."""
