"""Stores, and what happens to them, in this process."""

import pytest


@pytest.fixture(autouse=True)
def each_test(apart: None) -> None:
    """Leave nothing to the next one."""
