"""Quota stores in this process."""

import pytest


@pytest.fixture(autouse=True)
def each_test(isolated: None) -> None:
    """Isolate the tests from one another."""
