"""An account that follows the event feed, and the check of what it received."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import psycopg

from tests.chaos.checks import Expected, Kind, Violation
from tests.chaos.customers import Customer, Shop
from tests.chaos.journal import Journal
from tests.chaos.records import Records

LINK = re.compile(r'<.*?/v1(/events\?[^>]*)>; rel="next"')
READ_SECONDS = 60.0  # For reading the remaining events.
PAUSE = 0.2  # Seconds between polls after an empty page.


class Follower(Customer):
    """Follows the links from the oldest event, and retries."""

    def __init__(self, shop: Shop, journal: Journal) -> None:
        super().__init__(shop, journal, random.Random())
        self.events: list[dict[str, Any]] = []
        self._path = "/events?limit=100"

    async def shop(self, stopping: asyncio.Event) -> None:
        """Follow until the customers stop."""
        while not stopping.is_set():
            if not await self.read_page():
                await asyncio.sleep(PAUSE)

    async def read_all(self) -> None:
        """Read the rest after the last write, once all events have positions."""
        async with asyncio.timeout(READ_SECONDS):
            while await self.read_page():
                pass
        self._client.close()

    async def read_page(self) -> bool:
        """Read a page; returns False if it was empty."""
        reply = await self.send(Expected("list events", 200), "GET", self._path)
        link = LINK.fullmatch(reply.headers.get("link", ""))
        if reply.status != 200 or link is None or not isinstance(reply.json, list):
            return True
        self.events += reply.json
        self._path = link[1]
        return bool(reply.json)


def outbox_is_empty(database: str) -> bool:
    """Whether all events have positions in the feed."""
    with psycopg.connect(database) as connection:
        return connection.execute("SELECT count(*) FROM accounts_outboxevent").fetchone() == (0,)


def check_feed(
    events: list[dict[str, Any]], account: str, run: str, records: Records
) -> Iterator[Violation]:
    """Check that the account received each event once, in order, and no others."""
    ids = [event["id"] for event in events]
    if wrong := [pair for pair in pairwise(ids) if pair[0] >= pair[1]]:
        yield Violation(Kind.FEED, "", f"{account}: event {wrong[0][1]} came after {wrong[0][0]}")
    own = [order for order in records.orders if order.account == account]
    expected = Counter(
        [
            *(("pet.created", pet.id) for pet in records.pets),
            *(("order.placed", order.id) for order in own),
            *(("order.cancelled", order.id) for order in own if order.status == "cancelled"),
        ]
    )
    received = Counter(named for event in events if (named := subject(event, run)))
    for what, differ in (("missed", expected - received), ("should not have got", received - expected)):
        if differ:
            yield Violation(Kind.FEED, "", f"{account} {what} {differ.total()} events: {min(differ)}")


def subject(event: dict[str, Any], run: str) -> tuple[str, int] | None:
    """The type and the pet of this run, or the order; None for events that are not checked."""
    data = event["data"]
    if event["type"] == "pet.created" and data["pet"]["name"].startswith(f"{run} "):
        return event["type"], data["pet"]["id"]
    if event["type"] in {"order.placed", "order.cancelled"}:
        return event["type"], data["order"]["id"]
    return None
