"""Hostile requests: what no client should send, and a service that stands it."""
