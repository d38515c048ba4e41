"""Compares the database with what the service has acknowledged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import psycopg

from tests.chaos.checks import Kind, Violation
from tests.chaos.customers import Shop
from tests.chaos.journal import Order

PETS = "SELECT id, name, status FROM inventory_pet WHERE starts_with(name, %s)"
ORDERS = """SELECT o.id, o.pet_id, o.status, a.name FROM inventory_order o
            JOIN accounts_account a ON a.id = o.account_id"""
LIVE = {"placed", "approved"}


class PetRow(NamedTuple):
    id: int
    name: str
    status: str


class OrderRow(NamedTuple):
    id: int
    pet: int
    status: str
    account: str


class Records(NamedTuple):
    """The rows of this run."""

    pets: list[PetRow]
    orders: list[OrderRow]

    @classmethod
    def read(cls, url: str, run: str) -> Records:
        with psycopg.connect(url) as connection:
            pets = [PetRow(*row) for row in connection.execute(PETS, [f"{run} "])]
            return cls(pets, [OrderRow(*row) for row in connection.execute(ORDERS)])


def check_records(shop: Shop, records: Records) -> Iterator[Violation]:
    yield from check_pets(shop, records)
    rows = {row.id: row for row in records.orders}
    for journal in shop.journals:
        for order in journal.orders.values():
            yield from check_order(order, rows.get(order.number))
    yield from check_pairs(shop, records)


def check_pets(shop: Shop, records: Records) -> Iterator[Violation]:
    """Check that acknowledged pets exist, and none twice."""
    rows = {row.id: row for row in records.pets}
    for name, (account, pet) in shop.created.items():
        row = rows.get(pet)
        if pet and (row is None or row.name != name):
            yield Violation(Kind.LOST, "", f"{account.name}: pet {pet}, {name!r}, is {row}")
    for name, count in Counter(row.name for row in records.pets).items():
        if count > 1:
            yield Violation(Kind.DOUBLED, "", f"{count} pets are named {name!r}")


def check_order(order: Order, row: OrderRow | None) -> Iterator[Violation]:
    if row is None or row.pet != order.pet or row.status not in order.state.split(" or "):
        detail = f"{order.account.name}: order {order.number} of pet {order.pet}, {order.state}, is {row}"
        yield Violation(Kind.LOST, "", detail)
    elif row.account != order.account.name:
        detail = f"order {order.number} of {order.account.name} was written for {row.account}"
        yield Violation(Kind.FOREIGN, "", detail)


def check_pairs(shop: Shop, records: Records) -> Iterator[Violation]:
    """Check that pending pets have exactly one open order, and available ones have none."""
    attempts = sum((journal.ordered_pets for journal in shop.journals), Counter[int]())
    orders_of = Counter(row.pet for row in records.orders)
    live: dict[int, list[int]] = defaultdict(list)
    for row in records.orders:
        if row.status in LIVE:
            live[row.pet].append(row.id)
    for pet in records.pets:
        orders = live[pet.id]
        if orders_of[pet.id] > attempts[pet.id]:
            detail = f"pet {pet.id} has {orders_of[pet.id]} orders from {attempts[pet.id]} requests"
            yield Violation(Kind.DOUBLED, "", detail)
        if len(orders) > 1:
            yield Violation(Kind.DOUBLED, "", f"pet {pet.id} has the orders {orders}")
        elif pet.status != ("pending" if orders else "available"):
            yield Violation(Kind.BROKEN, "", f"pet {pet.id} is {pet.status} with the orders {orders}")
