"""Requests to the API, in this process."""

from typing import Any

import pytest

from accounts.quota.store_protocol import QuotaStore
from inventory.models import Category, Pet
from tests.support.event_loop import run_directly, run_on_loop
from tests.support.skips import NEEDS_POSTGRESQL


@pytest.fixture(autouse=True)
def each_test(apart: None) -> None:
    """Leave nothing to the next one."""


@pytest.fixture
def pet(category: Category) -> Pet:
    return Pet.objects.create(name="Biscuit", category=category)


@pytest.fixture
def served(store: QuotaStore, monkeypatch: pytest.MonkeyPatch) -> QuotaStore:
    """Each store in turn, as the one that the service uses."""
    monkeypatch.setattr("accounts.keys.authentication.store", store)
    return store


@pytest.fixture(params=[run_directly, pytest.param(run_on_loop, marks=NEEDS_POSTGRESQL)])
def run(request: pytest.FixtureRequest) -> Any:
    """Each way to run a function: in a thread, and on the event loop. It returns what is raised."""
    return request.param
