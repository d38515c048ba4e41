"""Races between buyers, cancellations and staff: D14, D15, D31."""

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import httpx
import pytest

from accounts.models import Account, OutboxEvent
from inventory.models import Category, Order, Pet, PetStatus, TransitionError
from tests.conftest import COMMITTED
from tests.support.concurrency import before_commit, run_concurrently
from tests.support.live import Service
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.thorough import times

pytestmark = pytest.mark.each_database

BUYERS = 64
PETS = 50
ROUNDS = times(10, 4)
BUYERS_PER_PET = 5  # Buyers that compete for each pet.
FIRST_ROUND_BUYERS_PER_PET = times(BUYERS, 16)  # The same in the first round.
DUELS = times(20, 8)

# Prints the database's state of the pets in a range of ids, inclusive.
GET_STATE = """
from collections import Counter
import json
from inventory.models import *
pets = Pet.objects.filter(pk__gte={first}, pk__lte={last})
orders = Order.objects.filter(pet__in=pets)
print(json.dumps({{
    "pets": Counter(pets.values_list("status", flat=True)),
    "orders": Counter(orders.values_list("status", flat=True)),
    "order_steps": Counter(OrderEvent.objects.filter(order__in=orders).values_list("to_status", flat=True)),
    "pet_steps": Counter(PetEvent.objects.filter(pet__in=pets).values_list("to_status", flat=True)),
}}))
"""


class Crowd:
    """Threads that send concurrent requests, each with its own client, alternating accounts."""

    def __init__(self, service: Service, keys: list[str], clients: ExitStack) -> None:
        self.own = threading.local()
        self.waiting = [clients.enter_context(service.client(keys[n % len(keys)])) for n in range(BUYERS)]
        self.pool = clients.enter_context(ThreadPoolExecutor(BUYERS, initializer=self.take_client))

    def take_client(self) -> None:
        self.own.client = self.waiting.pop()

    def each(self, act: Callable[[httpx.Client, Any], Any], values: list[Any]) -> list[Any]:
        """Call the action with each value, on the next free client."""
        return list(self.pool.map(lambda value: act(self.own.client, value), values))


@contextmanager
def crowd_of(service: Service, *keys: str) -> Iterator[Crowd]:
    with ExitStack() as clients:
        yield Crowd(service, list(keys), clients)


def buy(client: httpx.Client, pet_id: int) -> tuple[int, str]:
    """Order the pet; return the status, and the error code or the pet's id."""
    response = client.post("/store/orders", json={"petId": pet_id})
    body = response.json()
    return response.status_code, str(body.get("code", body.get("petId")))


def create_pets(service: Service, count: int) -> list[int]:
    """Put pets on sale; return their ids."""
    made = service.manage(
        "shell", "-v", "0", "-c",
        "from inventory.models import *; category = Category.objects.first();"
        f"pets = [Pet(name='Wanted', category=category) for _ in range({count})];"
        "print([pet.pk for pet in Pet.objects.bulk_create(pets)])",
    )  # fmt: skip
    return [int(pet_id) for pet_id in json.loads(made)]


def get_state(service: Service, pets: list[int]) -> dict[str, dict[str, int]]:
    """Count the pets and orders by status, and their status changes, in the database."""
    script = GET_STATE.format(first=pets[0], last=pets[-1])
    found: dict[str, dict[str, int]] = json.loads(service.manage("shell", "-v", "0", "-c", script))
    return found


def list_orders(client: httpx.Client) -> list[dict[str, Any]]:
    """All orders of an account, page by page."""
    orders: list[dict[str, Any]] = []
    url: str | None = "/store/orders?limit=100"
    while url:
        page = client.get(url).raise_for_status()
        orders += page.json()
        url = page.links.get("next", {}).get("url")
    return orders


def test_64_buyers_of_the_same_50_pets_buy_each_exactly_once(service: Service) -> None:
    keys = [service.issue_high_limit_key(f"Buyer {number}") for number in range(4)]
    stock = create_pets(service, PETS * ROUNDS)
    shuffled = random.Random(14)
    with crowd_of(service, *keys) as crowd:
        for start in range(0, len(stock), PETS):
            pets = stock[start : start + PETS]
            # In the first round all buyers compete for a few pets, later for a dozen at a time.
            rivals = BUYERS_PER_PET if start else FIRST_ROUND_BUYERS_PER_PET
            wanted = [pet for pet in shuffled.sample(pets, PETS) for _ in range(rivals)]
            responses = crowd.each(buy, wanted)
            won = [int(pet) for status, pet in responses if status == 201]
            assert sorted(won) == pets
            rejected = Counter((status, code) for status, code in responses if status != 201)
            assert rejected == {(409, "pet_not_available"): len(wanted) - PETS}
    count = len(stock)
    assert get_state(service, stock) == {
        "pets": {"pending": count},
        "orders": {"placed": count},
        "order_steps": {"placed": count},
        "pet_steps": {"pending": count},
    }
    orders = []
    for key in keys:
        with service.client(key) as client:
            orders += list_orders(client)
    assert sorted(order["petId"] for order in orders) == stock


def test_one_order_cancelled_concurrently_releases_its_pet_once(service: Service) -> None:
    key = service.issue_high_limit_key("Undecided")
    pets = create_pets(service, 10)
    with crowd_of(service, key) as crowd:
        for pet in pets:
            assert crowd.each(buy, [pet]) == [(201, str(pet))]
            with service.client(key) as client:
                path = f"/store/orders/{list_orders(client)[-1]['id']}"
            responses = crowd.each(lambda client, path: client.delete(path).status_code, [path] * BUYERS)
            assert responses == [204] * BUYERS
    assert get_state(service, pets) == {
        "pets": {"available": 10},
        "orders": {"cancelled": 10},
        "order_steps": {"placed": 10, "cancelled": 10},
        "pet_steps": {"pending": 10, "available": 10},
    }


def buy_and_cancel(client: httpx.Client, pet_id: int) -> tuple[int, int | None]:
    """Order the pet and, if that succeeds, cancel the order; return both statuses."""
    placed = client.post("/store/orders", json={"petId": pet_id})
    if placed.status_code != 201:
        assert placed.json()["code"] == "pet_not_available"
        return placed.status_code, None
    return 201, client.delete(f"/store/orders/{placed.json()['id']}").status_code


def test_every_order_won_in_a_race_can_be_cancelled(service: Service) -> None:
    keys = [service.issue_high_limit_key(f"Fickle {number}") for number in range(4)]
    pets = create_pets(service, 3)
    with crowd_of(service, *keys) as crowd:
        responses = Counter(crowd.each(buy_and_cancel, pets * 200))
    assert set(responses) == {(201, 204), (409, None)}
    won = responses[201, 204]
    assert won > len(pets)  # Pets were bought repeatedly.
    assert get_state(service, pets) == {
        "pets": {"available": 3},
        "orders": {"cancelled": won},
        "order_steps": {"placed": won, "cancelled": won},
        "pet_steps": {"pending": won, "available": won},
    }


# --- The verbs, which staff use, against each other -----------------------------------------------


@pytest.fixture
def pet(category: Category) -> Pet:
    return Pet.objects.create(name="Biscuit", category=category)


def at_once(*acts: Callable[[], Any]) -> list[bool]:
    """Run actions in concurrent threads; return whether each was legal."""

    def attempt(act: Callable[[], Any]) -> bool:
        try:
            act()
        except TransitionError:
            return False
        return True

    return run_concurrently(*(partial(attempt, act) for act in acts))


def copy(order: Order) -> Order:
    """The order as another member of staff has it on the screen."""
    return Order.objects.get(pk=order.pk)


def stored(order: Order) -> tuple[str, str]:
    return Order.objects.values_list("status", "pet__status").get(pk=order.pk)


@COMMITTED
def test_either_staff_approve_or_the_client_cancels(account: Account, pet: Pet) -> None:
    for _ in range(DUELS):
        order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="buyer")
        approved, cancelled = at_once(
            partial(copy(order).approve, by="staff"),
            partial(copy(order).cancel, by="buyer", only_placed=True),
        )
        assert approved != cancelled
        assert stored(order) == (("approved", "pending") if approved else ("cancelled", "available"))
        assert order.events.count() == 2
        order.cancel(by="staff")


@COMMITTED
def test_either_the_order_is_delivered_or_cancelled(account: Account, pet: Pet) -> None:
    for _ in range(DUELS):
        order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="buyer")
        order.approve(by="staff")
        delivered, cancelled = at_once(
            partial(copy(order).deliver, by="ann"),
            partial(copy(order).cancel, by="bob"),
        )
        assert delivered != cancelled
        assert stored(order) == (("delivered", "sold") if delivered else ("cancelled", "available"))
        if delivered:
            pet.change_status(PetStatus.AVAILABLE, by="staff", reason="Returned.")


@COMMITTED
def test_either_the_order_or_its_pet_is_returned(account: Account, pet: Pet) -> None:
    for _ in range(DUELS):
        order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="buyer")
        order.approve(by="staff")
        order.deliver(by="staff")
        returned, restocked = at_once(
            partial(copy(order).return_pet, by="ann", reason="Allergic."),
            partial(Pet.objects.get(pk=pet.pk).change_status, PetStatus.AVAILABLE, by="bob", reason="Ill."),
        )
        assert returned != restocked
        order.refresh_from_db()
        assert (order.stage, *stored(order)) == ("returned", "delivered", "available")


@COMMITTED
def test_order_approved_by_two_is_approved_once(account: Account, pet: Pet) -> None:
    for _ in range(DUELS):
        order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="buyer")
        decisions = at_once(*(partial(copy(order).approve, by="staff") for _ in range(4)))
        assert sorted(decisions) == [False, False, False, True]
        assert order.events.filter(to_status="approved").count() == 1
        order.cancel(by="staff")


@COMMITTED
@NEEDS_POSTGRESQL
def test_pet_deleted_by_two_is_announced_once(pet: Pet) -> None:
    with before_commit(Pet.objects.get(pk=pet.pk).delete):
        pet.delete()
    assert OutboxEvent.objects.filter(type="pet.deleted").count() == 1
