"""Tests of an event loop in this process."""

import pytest


@pytest.fixture(autouse=True)
def each_test(isolated: None) -> None:
    """Isolate each test."""
