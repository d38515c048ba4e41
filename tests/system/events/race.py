"""Concurrent writers and followers of the feed, and a comparison of what each follower received."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import zip_longest
from typing import Any

import httpx

from tests.support.live import Service
from tests.support.sql import connect_to, insert, select
from tests.support.thorough import times

WRITERS = 6
IMPORTED_PETS = 3_000
MAX_EVENTS_PER_TRANSACTION = 400
MAX_TRANSACTION_SECONDS = times(15, 5) / 10  # A hundredth of it on SQLite, where other writers wait.
EVENTS_PER_KILL = 20_000  # A worker is killed at least once for so many events.
KILL_INTERVAL = 6.0  # Seconds. The server exits if workers die soon after their start.
SEQUENCING_TIMEOUT = 120  # Seconds.

IN_FEED = "SELECT id, account_id, type FROM accounts_event ORDER BY id"


class Follower:
    """Follows the feed, reconnects at random, and records the events that it receives."""

    def __init__(self, race: Race, account_id: int, key: str, kind: str = "") -> None:
        self.account_id, self.kind = account_id, kind
        self.events: list[tuple[int, str, Any]] = []
        self._race, self._key = race, key

    def run(self) -> None:
        """Follow until the race has settled and a page is empty."""
        rng = random.Random(self._key + self.kind)
        path = f"{self._race.service.url}/v1/events?limit=100" + (f"&type={self.kind}" if self.kind else "")
        client = self._race.service.client(self._key)
        while True:
            settled = self._race.settled.is_set()
            if rng.random() < 0.02:
                client.close()
                client = self._race.service.client(self._key)
            try:
                response = client.get(path)
            except httpx.TransportError:  # The worker was killed.
                process = self._race.service.process
                assert process is not None
                assert process.poll() is None, "The service has exited."
                continue
            if response.status_code != 200:
                assert response.status_code in {429, 503}, response.text
                continue
            events = response.json()
            if rng.random() < 0.02:  # As if it had crashed before it stored the page.
                continue
            self.events += [(event["id"], event["type"], event["data"]) for event in events]
            path = response.links["next"]["url"]
            if not events:
                if settled:
                    break
                time.sleep(0.02)
        client.close()


class Race:
    def __init__(self, service: Service, events: int) -> None:
        self.service = service
        self.settled = threading.Event()
        self._events = events
        self._stopped = threading.Event()
        self._url = service.environment["DATABASE_URL"]
        self._is_sqlite = self._url.startswith("sqlite")
        self._lock = threading.Lock()
        self._written = self._kills = 0
        self._committed: set[int] = set()  # Marks of committed events.
        self._pets: set[int] = set()  # Acknowledged pets.
        self._marks = iter(range(1, 10**12))

    def run(self) -> int:
        """Run the race, wait until all events are in the feed, compare, and return their number."""
        keys = [self.service.issue_high_limit_key(name) for name in ("First", "Second")]
        ids = [row[0] for row in select(self._url, "SELECT id FROM accounts_account ORDER BY id")]
        followers = [
            Follower(self, ids[0], keys[0]),
            Follower(self, ids[1], keys[1]),
            Follower(self, ids[0], keys[0], "pet"),
            Follower(self, ids[1], keys[1], "order"),
        ]
        with ThreadPoolExecutor(32) as pool:
            following = [pool.submit(follower.run) for follower in followers]
            writing = [pool.submit(self.write, ids, seed) for seed in range(WRITERS)]
            writing += [pool.submit(self.create, key) for key in keys]
            writing.append(pool.submit(self.import_pets))
            killing = pool.submit(self.kill)
            for future in writing:
                future.result()
            self._stopped.set()
            killing.result()
            self.wait_until_sequenced()
            self.settled.set()
            for future in following:
                future.result()
        return self.compare(followers)

    def should_continue(self) -> bool:
        """Whether to write more events, also until enough workers have been killed."""
        return self._written < self._events or self._kills < self._events // EVENTS_PER_KILL

    def write(self, account_ids: list[int], seed: int) -> None:
        """Write events in fast and slow transactions, of which some are rolled back."""
        rng = random.Random(seed)
        max_seconds = MAX_TRANSACTION_SECONDS / (100 if self._is_sqlite else 1)
        with connect_to(self._url) as connection:
            while self.should_continue():
                count = rng.choice((1, 1, 5, MAX_EVENTS_PER_TRANSACTION))
                with self._lock:
                    marks = [next(self._marks) for _ in range(count)]
                rows = []
                for mark in marks:
                    account = rng.choice((0, *account_ids))
                    kind = "order.placed" if account else "pet.updated"
                    now, data = time.time_ns() // 1000, json.dumps({"mark": mark})
                    rows.append({"account_id": account, "type": kind, "created_at": now, "data": data})
                if self._is_sqlite:
                    connection.execute("BEGIN IMMEDIATE")
                insert(connection, "accounts_outboxevent", rows)
                if rng.random() < 0.3:
                    time.sleep(max_seconds * rng.random())
                if rng.random() < 0.2:
                    connection.rollback()
                else:
                    connection.commit()
                    with self._lock:
                        self._committed.update(marks)
                        self._written += count

    def create(self, key: str) -> None:
        """Add pets through the API. Acknowledged pets must be in the feed."""
        with self.service.client(key) as client:
            while self.should_continue():
                with suppress(httpx.TransportError):
                    response = client.post("/pets", json={"name": "Pet", "categoryId": 1})
                    if response.status_code == 201:
                        self._pets.add(response.json()["id"])

    def import_pets(self) -> None:
        """Import a file, in one transaction."""
        file = self.service.folder / "pets.csv"
        file.write_text("name,categoryId\n" + "Many,1\n" * IMPORTED_PETS)
        self.service.manage("import_pets", str(file))

    def kill(self) -> None:
        """Kill a worker every few seconds."""
        while not self._stopped.wait(KILL_INTERVAL):
            with suppress(ProcessLookupError):
                os.kill(self.service.processes()[1], signal.SIGKILL)  # The oldest worker.
                self._kills += 1

    def wait_until_sequenced(self) -> None:
        """Wait until the outbox is empty. Raises AssertionError after SEQUENCING_TIMEOUT."""
        end = time.monotonic() + SEQUENCING_TIMEOUT
        while select(self._url, "SELECT count(*) FROM accounts_outboxevent")[0][0]:
            assert time.monotonic() < end, "Sequencing has stopped."
            time.sleep(0.1)

    def compare(self, followers: list[Follower]) -> int:
        """Compare the feed with what was committed, and what each follower received with the feed."""
        feed = select(self._url, IN_FEED)
        rows = select(self._url, "SELECT data FROM accounts_event WHERE data LIKE '{\"mark%'")
        pets = select(self._url, "SELECT data FROM accounts_event WHERE type = 'pet.created'")
        marks = [json.loads(row[0])["mark"] for row in rows]
        assert set(marks) == self._committed, "Events were lost, or are of a rollback."
        assert len(set(marks)) == len(marks), "Events are twice in the feed."
        assert self._pets <= {json.loads(row[0])["pet"]["id"] for row in pets}, "Pets have no event."
        for follower in followers:
            expected = [
                event_id
                for event_id, account_id, kind in feed
                if account_id in (0, follower.account_id) and kind.startswith(follower.kind)
            ]
            received = [event_id for event_id, _, _ in follower.events]
            wrong = [pair for pair in zip_longest(received, expected) if pair[0] != pair[1]]
            assert not wrong, f"{follower.kind}: {len(wrong)} differ, the first is {wrong[0]}"
        return len(feed)
