"""A mix of a shop's requests, and a journal of every write that the service acknowledged.

For a database that `load.fill` filled. Every request should succeed: a pet is ordered once, an order is
cancelled once, by the account that placed it. So every response other than 2xx is a failure.
"""

from __future__ import annotations

import json
import random
import secrets
import sqlite3
from collections import Counter, deque
from typing import Any, NamedTuple

import psycopg

from tests.load.fill import CATEGORIES, STATUSES

OPERATIONS = ("list", "list100", "get", "create", "place", "get order", "cancel")
WEIGHTS = (55, 5, 20, 8, 4, 4, 4)  # As many orders are cancelled as placed, so that pets remain.
LIST, LIST100, GET, CREATE, PLACE, GET_ORDER, CANCEL = range(7)
WRITES = {CREATE, PLACE, CANCEL}
PREPARED = 10_000  # Reads are prepared, so that the client needs little CPU.


class Request(NamedTuple):
    """What is sent, and what the journal needs when the response arrives."""

    operation: int
    text: bytes
    context: tuple[int, ...] = ()


class Placed(NamedTuple):
    """An order that the service has acknowledged."""

    order: int
    pet: int
    key: int


class Findings(NamedTuple):
    """The differences between the database and the journal."""

    acknowledged: int
    lost: set[str]  # A message for each acknowledged write that is missing.
    doubled: set[str]
    unacknowledged: int  # Pets that exist although the client got no response, or another one.

    def sentence(self) -> str:
        return (
            f"Acknowledged writes: {self.acknowledged:,}, lost {len(self.lost)}; "
            f"pets created without a response: {self.unacknowledged}."
        )


class Shop:
    """A workload, and its journal."""

    def __init__(self, keys: list[str], pets: int, seed: int = 1) -> None:
        """Take the keys and the number of pets that the database was filled with."""
        self.run = secrets.token_hex(4)  # Distinguishes its pets from another run's.
        self.random = random.Random(seed)
        self.keys = keys
        self.heads = [f"Host: localhost\r\nAuthorization: Bearer {key}\r\n" for key in keys]
        self.writers = range(len(keys) // 2, len(keys))  # The others only read: a replica may serve them.
        self.pets = pets
        self.prepared = {operation: self.prepare(operation) for operation in (LIST, LIST100, GET)}
        self.plan = self.random.choices(range(len(OPERATIONS)), WEIGHTS, k=PREPARED)
        self.position = 0  # In the plan.
        self.names = 0
        self.available = deque(pet for pet in range(1, pets + 1) if STATUSES[(pet - 1) % 5] == "available")
        self.placed: deque[Placed] = deque()
        self.created: dict[int, int] = {}  # The pet's id, and the number in its name.
        self.orders: dict[int, tuple[int, str]] = {}  # The pet, and the status that was acknowledged.
        self.attempts: Counter[int] = Counter()  # How often an order of a pet was requested.

    def prepare(self, operation: int) -> list[bytes]:
        """Prepare reads of one kind, with random keys."""
        return [
            f"GET {self.path(operation)} HTTP/1.1\r\n{self.random.choice(self.heads)}\r\n".encode()
            for _ in range(PREPARED)
        ]

    def path(self, operation: int) -> str:
        if operation == GET:
            return f"/v1/pets/{self.random.randint(1, self.pets)}"
        return f"/v1/pets?limit={100 if operation == LIST100 else 20}&status=available"

    def request(self) -> Request:
        self.position = (self.position + 1) % PREPARED
        operation = self.plan[self.position]
        if operation == CREATE:
            return self.create()
        if operation == PLACE and self.available:
            return self.place()
        if operation == GET_ORDER and self.placed:
            return self.get_order()
        if operation == CANCEL and self.placed:
            return self.cancel()
        if operation not in self.prepared:
            operation = LIST  # There is no order yet, or no pet left.
        return Request(operation, self.prepared[operation][self.position])

    def create(self) -> Request:
        self.names += 1
        body = f'{{"name": "Load {self.run} {self.names}", "categoryId": {1 + self.names % CATEGORIES}}}'
        return self.post(CREATE, "/v1/pets", body, self.names)

    def place(self) -> Request:
        """Order the pet that has been available longest."""
        pet = self.available.popleft()
        self.attempts[pet] += 1
        return self.post(PLACE, "/v1/store/orders", f'{{"petId": {pet}}}', pet)

    def post(self, operation: int, path: str, body: str, number: int) -> Request:
        key = self.writers[number % len(self.writers)]
        head = f"POST {path} HTTP/1.1\r\n{self.heads[key]}Content-Type: application/json\r\n"
        text = f"{head}Content-Length: {len(body)}\r\n\r\n{body}"
        return Request(operation, text.encode(), (number, key))

    def get_order(self) -> Request:
        one = self.placed[self.random.randrange(min(len(self.placed), 100))]
        text = f"GET /v1/store/orders/{one.order} HTTP/1.1\r\n{self.heads[one.key]}\r\n"
        return Request(GET_ORDER, text.encode())

    def cancel(self) -> Request:
        one = self.placed.popleft()
        self.orders[one.order] = (one.pet, "placed or cancelled")  # Until a response says which.
        text = f"DELETE /v1/store/orders/{one.order} HTTP/1.1\r\n{self.heads[one.key]}\r\n"
        return Request(CANCEL, text.encode(), one)

    def acknowledge(self, request: Request, status: int, body: bytes) -> None:
        """Record what the service acknowledged.

        Without a response the outcome is unknown: the pet or order is not used again.
        """
        if request.operation == CREATE and status == 201:
            self.created[json.loads(body)["id"]] = request.context[0]
        elif request.operation == PLACE and status == 201:
            pet, key = request.context
            order = json.loads(body)["id"]
            self.orders[order] = (pet, "placed")
            self.placed.append(Placed(order, pet, key))
        elif request.operation == CANCEL and status == 204:
            order, pet, _ = request.context
            self.orders[order] = (pet, "cancelled")
            self.available.append(pet)

    def check(self, database: str) -> Findings:
        """Compare the journal with the database."""
        names, statuses = {}, {}
        for pet, name, status in select(database, "SELECT id, name, status FROM inventory_pet"):
            names[pet], statuses[pet] = name, status
        rows = select(database, "SELECT id, pet_id, status FROM inventory_order")
        orders = {order: (pet, status) for order, pet, status in rows}
        ours = Counter(name for name in names.values() if name.startswith(f"Load {self.run} "))
        ordered = Counter(pet for pet, _ in orders.values())
        lost = {
            f"pet {pet}"
            for pet, number in self.created.items()
            if names.get(pet) != f"Load {self.run} {number}"
        }
        for order, (pet, acknowledged) in self.orders.items():
            ordered_pet, status = orders.get(order, (pet, "missing"))
            if ordered_pet != pet or status not in acknowledged.split(" or "):
                lost.add(f"order {order}: {acknowledged}, the database says {status}")
            elif acknowledged == "placed" and statuses.get(pet) != "pending":
                lost.add(f"order {order}: its pet is {statuses.get(pet)}")
        doubled = {f"pet {name}" for name, count in ours.items() if count > 1}
        doubled |= {
            f"orders of pet {pet}" for pet, count in self.attempts.items() if ordered.get(pet, 0) > count
        }
        return Findings(
            acknowledged=len(self.created) + len(self.orders),
            lost=lost,
            doubled=doubled,
            unacknowledged=sum(ours.values()) - len(self.created),
        )


def select(database: str, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query to the database of a DATABASE_URL."""
    if database.startswith("sqlite:///"):
        with sqlite3.connect(database.removeprefix("sqlite:///")) as file:
            return list(file.execute(query))
    with psycopg.connect(database) as connection:
        return list(connection.execute(query.encode()))
