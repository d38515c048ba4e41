"""Fixtures for the pages of an account."""

import pytest
from django.test import Client

from accounts.models import Account, Role
from tests.support.members import member_of


@pytest.fixture
def kim(account: Account) -> Client:
    """A client of an account developer."""
    return member_of(account, Role.DEVELOPER)
