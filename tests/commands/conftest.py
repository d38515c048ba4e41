"""Fixtures of command tests."""

import pytest


@pytest.fixture(autouse=True)
def each_test(apart: None) -> None:
    """Isolate the tests from each other."""
