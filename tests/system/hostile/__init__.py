"""Hostile requests, and a service that withstands them."""
