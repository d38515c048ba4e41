"""Pages of the back office, in this process."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.support.staff import signed_in, superuser


@pytest.fixture(autouse=True)
def each_test(apart: None) -> None:
    """Leave nothing to the next one."""


@pytest.fixture
def boss(db: None) -> User:
    """A superuser."""
    return superuser()


@pytest.fixture
def staff(boss: User) -> Client:
    """The boss's client, which gets a 500 as a browser does."""
    return signed_in(boss)
