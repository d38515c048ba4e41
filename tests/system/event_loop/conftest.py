"""Tests of an event loop in this process."""

import pytest

from petstore.db.event_loop.connection_pool import ConnectionPool, get_write_pool


@pytest.fixture(autouse=True)
def isolate_each_test(isolated: None) -> None:
    """Isolate each test."""


@pytest.fixture
def writers() -> ConnectionPool:
    """A new pool for Django's connections on the loop."""
    get_write_pool.cache_clear()
    return get_write_pool("default")
