"""Staff who do the same thing at the same instant: it is done once."""

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client

from accounts.models import Account
from inventory.events import PetEvent
from inventory.models import Category, IllegalMoveError, Order, OrderStatus, Pet, PetStatus
from inventory.moves import move_pets
from tests.conftest import COMMITTED

pytestmark = COMMITTED
STAFF = 8


def at_once(*acts: Callable[[], Any]) -> list[Any]:
    """Do all of it at the same instant, each in a thread with a connection of its own."""
    start = threading.Barrier(len(acts))

    def run(act: Callable[[], Any]) -> Any:
        start.wait(timeout=30)
        try:
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def test_pets_that_many_sell_at_once_are_sold_once_each() -> None:
    category = Category.objects.earliest("id")
    pets = [Pet.objects.create(name=f"Pet {number}", category=category) for number in range(20)]
    ids = [pet.pk for pet in pets]
    orders = [ids, ids[::-1]] * (STAFF // 2)  # Whoever locks in another order would wait for ever.
    outcomes = at_once(
        *(lambda chosen=chosen: move_pets(chosen, PetStatus.SOLD, by="tests") for chosen in orders)
    )
    assert sorted(pet.pk for outcome in outcomes for pet in outcome.done) == ids
    assert PetEvent.objects.count() == len(ids)


def test_pets_are_ordered_or_moved_by_hand_and_never_both() -> None:
    category = Category.objects.earliest("id")
    account = Account.objects.create(name="Acme Pets", plan_id="business")
    ids = [Pet.objects.create(name=f"Pet {number}", category=category).pk for number in range(10)]

    def buy() -> None:
        for pk in ids[::-1]:
            try:
                Order.objects.place(account_id=account.pk, pet_id=pk, by="tests")
            except IllegalMoveError:
                continue

    at_once(buy, lambda: move_pets(ids, PetStatus.SOLD, by="tests"), buy)
    ordered = set(Order.objects.filter(status=OrderStatus.PLACED).values_list("pet_id", flat=True))
    for pet in Pet.objects.filter(pk__in=ids):
        assert pet.status == ("pending" if pet.pk in ordered else "sold")
        assert pet.events.count() == 1


def test_file_that_is_confirmed_many_times_at_once_is_imported_once() -> None:
    boss = User.objects.create(username="boss", is_staff=True, is_superuser=True)
    clients = [Client(raise_request_exception=False) for _ in range(STAFF)]
    for client in clients:
        client.force_login(boss)
    file = SimpleUploadedFile("pets.csv", b"name,category\nRex,Dogs\nTom,Cats\n")
    page = clients[0].post("/admin/inventory/pet/import/", {"import_file": file})
    token = re.findall(r'name="upload" value="([^"]+)"', page.text)[0]
    sent = {"upload": token}
    answers = at_once(
        *(
            lambda client=client: client.post("/admin/inventory/pet/process_import/", sent)
            for client in clients
        )
    )
    assert {answer.status_code for answer in answers} == {302}
    assert Pet.objects.count() == 2
