"""Tests of an event loop in this process."""

import pytest


@pytest.fixture(autouse=True)
def isolate_each_test(isolated: None) -> None:
    """Isolate each test."""
