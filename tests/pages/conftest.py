"""Fixtures for pages, in-process."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts.models import Account
from inventory.models import Category, Order, Pet
from tests.support.staff import PASSWORD, signed_in


@pytest.fixture(autouse=True)
def isolate_each_test(isolated: None) -> None:
    """Isolate the tests from each other."""


@pytest.fixture
def boss(db: None) -> User:
    """A superuser, with PASSWORD."""
    return User.objects.create_superuser("boss", password=PASSWORD)


@pytest.fixture
def staff(boss: User) -> Client:
    """The boss's client; it returns a 500 instead of raising."""
    return signed_in(boss)


@pytest.fixture
def pet(category: Category) -> Pet:
    return Pet.objects.create(name="Rex", category=category)


@pytest.fixture
def order(account: Account, pet: Pet) -> Order:
    """An order for the pet that awaits approval."""
    return Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests")
