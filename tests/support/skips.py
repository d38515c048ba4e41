"""Why a test may be left out, in one place. In CI nothing that can be installed counts as missing."""

import os

import pytest
from django.db import connection

# The event loop's engine speaks PostgreSQL's protocol; SQLite is a file that Django reads in the process.
NEEDS_POSTGRESQL = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite is no server.")
READS_PLANS = pytest.mark.skipif(connection.vendor != "postgresql", reason="It reads PostgreSQL's EXPLAIN.")


def needs_program(found: object | None, name: str) -> pytest.MarkDecorator:
    """Leave a test out where a program was not found; in CI it runs all the same, and fails."""
    missing = found is None and os.environ.get("CI") != "true"
    return pytest.mark.skipif(missing, reason=f"{name} is not installed.")
