"""Fixtures of command tests."""

import pytest


@pytest.fixture(autouse=True)
def each_test(isolated: None) -> None:
    """Isolate the tests from each other."""
