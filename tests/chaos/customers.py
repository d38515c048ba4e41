"""Accounts that continuously list, create, order and cancel, each over several connections."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from itertools import count
from time import monotonic
from typing import NamedTuple

from tests.chaos.checks import GET_ACCOUNT, Expected, Violation, check, count_admitted
from tests.chaos.client import Client, Reply
from tests.chaos.journal import Account, Journal, Order, OrderState
from tests.support.thorough import times

CONNECTIONS = 6  # Of an account with high limits: contention finds more faults.
LIMITED_CONNECTIONS = 2  # Of an account that reaches a limit.
MAX_LISTED = 100  # Pets in a list, of more in the shop: long lists keep the loop busy.
OPERATIONS = (
    "list pets", "create pet", "place order", "list orders", "get order", "cancel order", GET_ACCOUNT,
)  # fmt: skip
WEIGHTS = (30, 20, 15, 15, 8, 10, 2)
CONTESTED = 0.1  # The share of pets that two accounts order.
LIMITED_PAUSE = 0.1  # Seconds between requests of a connection whose account reaches a limit.
REJECTED_PAUSE = 1.0  # Seconds between retries of a rejected account; see D26.
# Seconds between requests of the others while staff work, so that commands start soon.
CALM_PAUSE = times(100, 400) / 1000
FAULT_PAUSE = times(0, 10) / 1000  # The same during faults; none in CI.
CONFLICT = frozenset({"pet_not_available"})
PATHS = {GET_ACCOUNT: "/account", "list orders": "/store/orders?limit=100"}


class Finding(NamedTuple):
    """A violation, and the seconds from the start until it was found."""

    at: float
    violation: Violation


class Shop:
    """All customers and their findings."""

    def __init__(self, port: int, accounts: Iterable[Account], run: str) -> None:
        self.port = port
        self.run = run
        self.started_at = monotonic()
        self.journals = [Journal(account) for account in accounts]
        self.replies = 0
        self.last_failure = 0.0  # When the last request with a 503 was sent.
        self.findings: list[Finding] = []
        self.created: dict[str, tuple[Account, int]] = {}  # Pets by name; 0: unknown whether it exists.
        self.contested: list[int] = []
        self.pause = FAULT_PAUSE  # Of accounts with high limits.
        self._names = count(1)
        self._stopping = asyncio.Event()

    def report(self, violations: Iterable[Violation]) -> None:
        now = monotonic() - self.started_at
        self.findings += [Finding(now, violation) for violation in violations]

    async def keep_busy(self, seed: int, *others: Customer) -> None:
        """Send until `stop`, and wait for the last responses."""
        async with asyncio.TaskGroup() as group:
            for customer in others:
                group.create_task(customer.shop(self._stopping))
            for number, journal in enumerate(self.journals):
                for connection in range(LIMITED_CONNECTIONS if journal.account.limited_by else CONNECTIONS):
                    chance = random.Random(f"{seed} {number} {connection}")
                    group.create_task(Customer(self, journal, chance).shop(self._stopping))

    def stop(self) -> None:
        self._stopping.set()

    def new_name(self) -> str:
        return f"{self.run} {next(self._names)}"


class Customer:
    """One connection of an account."""

    def __init__(self, shop: Shop, journal: Journal, chance: random.Random) -> None:
        self._shop = shop
        self._journal = journal
        self._chance = chance
        self._client = Client(shop.port, journal.account.key, shop.run)

    async def shop(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            reply = await self.perform(self._chance.choices(OPERATIONS, WEIGHTS)[0])
            if not self._journal.account.limited_by:
                await asyncio.sleep(self._shop.pause)
            elif reply.status == 429:
                await asyncio.sleep(REJECTED_PAUSE * LIMITED_CONNECTIONS)
            else:
                await asyncio.sleep(LIMITED_PAUSE)
        self._client.close()

    async def perform(self, operation: str) -> Reply:
        """Perform one operation, or list pets if there is no order or pet for it."""
        journal = self._journal
        if operation == "create pet":
            return await self.create()
        if operation == "place order" and (journal.free_pets or self._shop.contested):
            return await self.place()
        if operation == "cancel order" and (placed := journal.open_orders()):
            return await self.cancel(self._chance.choice(placed))
        if operation == "get order" and journal.orders:
            return await self.get(self._chance.choice(list(journal.orders.values())))
        if operation in PATHS:
            return await self.send(Expected(operation, 200), "GET", PATHS[operation])
        limit = self._chance.randint(1, MAX_LISTED)
        expected = Expected("list pets", 200, limit=limit, status="available")
        return await self.send(expected, "GET", f"/pets?status=available&limit={limit}")

    async def send(self, expected: Expected, method: str, path: str, body: object = None) -> Reply:
        """Send a request and check the response."""
        shop, journal = self._shop, self._journal
        is_free = expected.operation == GET_ACCOUNT
        (journal.account_reads if is_free else journal.sent).append(monotonic())
        reply = await self._client.send(method, f"/v1{path}", body)
        shop.replies += 1
        if reply.status == 503:
            shop.last_failure = max(shop.last_failure, reply.sent)
        if not is_free:
            count_admitted(reply, journal)
        shop.report(check(expected, reply, journal))
        return reply

    async def create(self) -> Reply:
        shop, journal = self._shop, self._journal
        name = shop.new_name()
        shop.created[name] = journal.account, 0
        expected = Expected("create pet", 201, name=name)
        reply = await self.send(expected, "POST", "/pets", {"name": name, "categoryId": 1})
        if reply.status == 201 and isinstance(reply.json, dict) and reply.json.get("name") == name:
            pet = int(reply.json["id"])
            shop.created[name] = journal.account, pet
            if self._chance.random() < CONTESTED:
                shop.contested += [pet, pet]
            else:
                journal.own_pets.add(pet)
                journal.free_pets.append(pet)
        return reply

    async def place(self) -> Reply:
        """Order a pet of its own, or a contested one."""
        shop, journal = self._shop, self._journal
        contested = bool(shop.contested)
        pet = shop.contested.pop() if contested else journal.free_pets.popleft()
        journal.ordered_pets[pet] += 1
        expected = Expected("place order", 201, pet=pet, errors=CONFLICT if contested else frozenset())
        reply = await self.send(expected, "POST", "/store/orders", {"petId": pet})
        if reply.status == 201 and isinstance(reply.json, dict) and reply.json.get("petId") == pet:
            number = int(reply.json["id"])
            journal.orders[number] = Order(number, pet, journal.account)
        elif reply.status == 429 and not contested:
            journal.free_pets.append(pet)  # No effect.
        return reply

    async def get(self, order: Order) -> Reply:
        """Read an order, which must be cancelled if that was acknowledged."""
        status = order.state.value if order.state is OrderState.CANCELLED else ""
        expected = Expected("get order", 200, pet=order.pet, order=order.number, status=status)
        return await self.send(expected, "GET", f"/store/orders/{order.number}")

    async def cancel(self, order: Order) -> Reply:
        """Cancel an order; the pet can be ordered again by this account only."""
        order.state = OrderState.UNKNOWN
        expected = Expected("cancel order", 204, pet=order.pet, order=order.number)
        reply = await self.send(expected, "DELETE", f"/store/orders/{order.number}")
        if reply.status == 204:
            order.state = OrderState.CANCELLED
            if order.pet in self._journal.own_pets:
                self._journal.free_pets.append(order.pet)
        elif reply.status == 429:
            order.state = OrderState.PLACED
        return reply
