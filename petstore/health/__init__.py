"""Liveness, readiness and the status page."""
