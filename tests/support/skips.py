"""Conditions under which tests are skipped. In CI, no installable program counts as missing."""

import os

import pytest
from django.db import connection

# The event loop's engine speaks PostgreSQL's protocol; SQLite is read in the process.
NEEDS_POSTGRESQL = pytest.mark.skipif(connection.vendor != "postgresql", reason="It needs PostgreSQL.")
READS_PLANS = pytest.mark.skipif(connection.vendor != "postgresql", reason="It reads PostgreSQL's EXPLAIN.")


def needs_program(found: object | None, name: str) -> pytest.MarkDecorator:
    """Skip a test if a program was not found; in CI it runs nevertheless, and fails."""
    missing = found is None and os.environ.get("CI") != "true"
    return pytest.mark.skipif(missing, reason=f"{name} is not installed.")
