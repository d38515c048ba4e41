"""Accounts that continuously list, create, order and cancel, each over several connections."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from itertools import count
from time import monotonic
from typing import NamedTuple

from tests.chaos.checks import LOOK, Asked, Violation, charge, check
from tests.chaos.client import Client, Reply
from tests.chaos.journal import Account, Journal, Order, OrderState
from tests.support.thorough import times

CONNECTIONS = 6  # Of an account with high limits: contention finds more faults.
FEW = 2  # Of an account that reaches a limit.
SHOWN = 100  # The most pets in a list, of more in the shop: long lists keep the loop busy.
OPERATIONS = ("list pets", "create pet", "place order", "list orders", "get order", "cancel order", LOOK)
WEIGHTS = (30, 20, 15, 15, 8, 10, 2)
CONTESTED = 0.1  # The share of pets that two accounts order.
PACE = 0.1  # Seconds between requests of a connection whose account reaches a limit.
REFUSED_PAUSE = 1.0  # Seconds between retries of a rejected account; see D26.
REST = 0.1  # Seconds between requests of the others while staff work, so that commands start soon.
HURRY = times(0, 10) / 1000  # The same during faults; none in CI.
TAKEN = frozenset({"pet_not_available"})
PATHS = {
    LOOK: "/account",
    "list orders": "/store/orders?limit=100",
    "list pets": "/pets?status=available&limit={}",
}


class Told(NamedTuple):
    """A violation, and the seconds from the start until it was found."""

    at: float
    violation: Violation


class Shop:
    """All customers and their findings."""

    def __init__(self, port: int, accounts: Iterable[Account], run: str) -> None:
        self.port = port
        self.run = run
        self.began = monotonic()
        self.journals = [Journal(account) for account in accounts]
        self.replies: Counter[tuple[str, int]] = Counter()  # By operation and status.
        self.slowest = 0.0
        self.last_failure = 0.0  # When the last request with a 503 was sent.
        self.told: list[Told] = []
        self.made: dict[str, tuple[Account, int]] = {}  # Pets by name; 0: unknown whether it exists.
        self.contested: list[int] = []
        self.hurried = True  # Whether customers send without pauses.
        self._names = count(1)
        self._stopping = asyncio.Event()

    def tell(self, violations: Iterable[Violation]) -> None:
        now = monotonic() - self.began
        self.told += [Told(now, violation) for violation in violations]

    async def keep_busy(self, seed: int, *others: Customer) -> None:
        """Send until `stop`, and wait for the last responses."""
        async with asyncio.TaskGroup() as group:
            for customer in others:
                group.create_task(customer.shop(self._stopping))
            for number, journal in enumerate(self.journals):
                for connection in range(FEW if journal.account.limited_by else CONNECTIONS):
                    dice = random.Random(f"{seed} {number} {connection}")
                    group.create_task(Customer(self, journal, dice).shop(self._stopping))

    def stop(self) -> None:
        self._stopping.set()

    def new_name(self) -> str:
        return f"{self.run} {next(self._names)}"


class Customer:
    """One connection of an account."""

    def __init__(self, shop: Shop, journal: Journal, dice: random.Random) -> None:
        self._shop = shop
        self._journal = journal
        self._dice = dice
        self._client = Client(shop.port, journal.account.key, shop.run)

    async def shop(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            reply = await self.act(self._dice.choices(OPERATIONS, WEIGHTS)[0])
            if self._journal.account.limited_by:
                await asyncio.sleep(REFUSED_PAUSE * FEW if reply.status == 429 else PACE)
            else:
                await asyncio.sleep(HURRY if self._shop.hurried else REST)
        self._client.close()

    async def act(self, operation: str) -> Reply:
        """Perform one operation, or list pets if it has no object."""
        journal = self._journal
        if operation == "create pet":
            return await self.create()
        if operation == "place order" and (journal.free_pets or self._shop.contested):
            return await self.place()
        if operation == "cancel order" and (placed := journal.open_orders()):
            return await self.cancel(self._dice.choice(placed))
        if operation == "get order" and journal.orders:
            return await self.get(self._dice.choice(list(journal.orders.values())))
        if operation in {LOOK, "list orders"}:
            return await self.ask(Asked(operation, 200), "GET", PATHS[operation])
        limit = self._dice.randint(1, SHOWN)
        asked = Asked("list pets", 200, limit=limit, filtered="available", full=True)
        return await self.ask(asked, "GET", PATHS["list pets"].format(limit))

    async def ask(self, asked: Asked, method: str, path: str, body: object = None) -> Reply:
        """Send a request and check the response."""
        shop, journal = self._shop, self._journal
        looks = asked.operation == LOOK
        (journal.looked if looks else journal.sent).append(monotonic())
        reply = await self._client.ask(method, f"/v1{path}", body)
        shop.replies[asked.operation, reply.status] += 1
        shop.slowest = max(shop.slowest, reply.took)
        if reply.status == 503:
            shop.last_failure = max(shop.last_failure, reply.sent)
        if not looks:
            charge(reply, journal)
        shop.tell(check(asked, reply, journal))
        return reply

    async def create(self) -> Reply:
        shop, journal = self._shop, self._journal
        name = shop.new_name()
        shop.made[name] = journal.account, 0
        asked = Asked("create pet", 201, name=name)
        reply = await self.ask(asked, "POST", "/pets", {"name": name, "categoryId": 1})
        if reply.status == 201 and isinstance(reply.json, dict) and reply.json.get("name") == name:
            pet = int(reply.json["id"])
            shop.made[name] = journal.account, pet
            if self._dice.random() < CONTESTED:
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
        asked = Asked("place order", 201, pet=pet, explained=TAKEN if contested else frozenset())
        reply = await self.ask(asked, "POST", "/store/orders", {"petId": pet})
        if reply.status == 201 and isinstance(reply.json, dict) and reply.json.get("petId") == pet:
            number = int(reply.json["id"])
            journal.orders[number] = Order(number, pet, journal.account)
        elif reply.status == 429 and not contested:
            journal.free_pets.append(pet)  # No effect.
        return reply

    async def get(self, order: Order) -> Reply:
        """Read an order, which must show what was acknowledged unless it is changing."""
        before = order.state
        asked = Asked("get order", 200, pet=order.pet, order=order.number)
        if before is OrderState.CANCELLED:
            asked = asked._replace(filtered=before.value)
        return await self.ask(asked, "GET", f"/store/orders/{order.number}")

    async def cancel(self, order: Order) -> Reply:
        """Cancel an order; the pet can be ordered again by this account only."""
        order.state = OrderState.UNKNOWN
        asked = Asked("cancel order", 204, pet=order.pet, order=order.number)
        reply = await self.ask(asked, "DELETE", f"/store/orders/{order.number}")
        if reply.status == 204:
            order.state = OrderState.CANCELLED
            if order.pet in self._journal.own_pets:
                self._journal.free_pets.append(order.pet)
        elif reply.status == 429:
            order.state = OrderState.PLACED
        return reply
