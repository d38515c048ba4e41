"""Requests to the API, in this process."""

from typing import Any

import pytest

from inventory.models import Category, Pet
from tests.support.event_loop import run_directly, run_on_loop
from tests.support.skips import NEEDS_POSTGRESQL


@pytest.fixture(autouse=True)
def isolate_each_test(isolated: None) -> None:
    """Isolate the tests from each other."""


@pytest.fixture
def pet(category: Category) -> Pet:
    return Pet.objects.create(name="Biscuit", category=category)


@pytest.fixture(params=[run_directly, pytest.param(run_on_loop, marks=NEEDS_POSTGRESQL)])
def run(request: pytest.FixtureRequest) -> Any:
    """Run a function in a thread and on the event loop; return its result or exception."""
    return request.param
