"""Quota stores in this process."""

import pytest


@pytest.fixture(autouse=True)
def isolate_each_test(isolated: None) -> None:
    """Isolate the tests from one another."""
