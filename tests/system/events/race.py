"""ConnectionPool, followers, and what each follower should have seen."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg

from tests.support.live import Service

WRITERS = 6
IMPORTED = 3_000
MOST_OF_ONE = 400  # Events in one transaction.
LONGEST = 1.5  # Seconds that a transaction stays open; on SQLite, where all others wait, a hundredth.
EVENTS_OF_A_KILL = 20_000  # At most so many for each worker that is killed.
KILLS_EVERY = 6.0  # Seconds. The server gives up where a worker ends soon after its start.
SETTLES_IN = 120  # Seconds.

INSERT = "INSERT INTO accounts_eventdraft (account_id, type, created_at, data) VALUES ({0}, {0}, {0}, {0})"
IN_FEED = "SELECT id, account_id, type FROM accounts_event ORDER BY id"


@dataclass
class Report:
    events: int
    faults: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    restarts: int = 0

    @property
    def is_right(self) -> bool:
        return not self.faults.total()

    def __str__(self) -> str:
        names = ("lost", "repeated", "foreign", "out of order", "of a rollback", "not in the feed")
        counts = ", ".join(f"{self.faults[name]} {name}" for name in names)
        done = f"{self.kills} workers killed, {self.restarts} restarts of followers"
        return f"{self.events:,} events, {done}: {counts}."


class Follower:
    """Follows the links, starts anew from the last one at random, and keeps what it has seen."""

    def __init__(self, race: Race, account_id: int, key: str, kind: str = "") -> None:
        self.account_id, self.kind = account_id, kind
        self.seen: list[tuple[int, str, Any]] = []
        self.restarts = 0
        self._race, self._key = race, key

    def run(self) -> None:
        """Follow until the race has settled and a page is empty."""
        choose = random.Random(self._key + self.kind)
        path = f"{self._race.service.url}/v1/events?limit=100" + (f"&type={self.kind}" if self.kind else "")
        client = self._race.service.client(self._key)
        while True:
            settled = self._race.settled.is_set()
            if choose.random() < 0.02:
                client.close()
                client = self._race.service.client(self._key)
                self.restarts += 1
            try:
                answer = client.get(path)
            except httpx.TransportError:  # Its worker was killed.
                process = self._race.service.process
                assert process is not None
                assert process.poll() is None, "The service has ended."
                continue
            if answer.status_code != 200:
                assert answer.status_code in {429, 503}, answer.text
                continue
            events = answer.json()
            if choose.random() < 0.02:  # It crashed before it kept the page.
                continue
            self.seen += [(one["id"], one["type"], one["data"]) for one in events]
            path = answer.links["next"]["url"]
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
        self._over = threading.Event()
        self._is_sqlite = service.environment["DATABASE_URL"].startswith("sqlite")
        self._lock = threading.Lock()
        self._written = self._kills = 0
        self._committed: set[int] = set()  # The marks of events that are in.
        self._undone: set[int] = set()
        self._pets: set[int] = set()  # That were acknowledged.
        self._marks = iter(range(1, 10**12))

    def run(self) -> Report:
        """Race, wait until all is in the feed, and compare."""
        keys = [self.service.roomy_key(name) for name in ("First", "Second")]
        with self.connect() as connection:
            rows = self.rows(connection, "SELECT id FROM accounts_account ORDER BY id")
        ids = [row[0] for row in rows]
        followers = [
            Follower(self, ids[0], keys[0]),
            Follower(self, ids[1], keys[1]),
            Follower(self, ids[0], keys[0], "pet"),
            Follower(self, ids[1], keys[1], "order"),
        ]
        report = Report(0)
        with ThreadPoolExecutor(32) as pool:
            following = [pool.submit(follower.run) for follower in followers]
            writing = [pool.submit(self.write, ids, seed) for seed in range(WRITERS)]
            writing += [pool.submit(self.create, key) for key in keys]
            writing.append(pool.submit(self.add_many))
            killing = pool.submit(self.kill)
            for one in writing:
                one.result()
            self._over.set()
            killing.result()
            self.wait_until_numbered()
            self.settled.set()
            for one in following:
                one.result()
        report.kills = self._kills
        report.restarts = sum(follower.restarts for follower in followers)
        self.compare(report, followers)
        return report

    def goes_on(self) -> bool:
        """Tell whether there is more to write: on SQLite all is written before many workers are killed."""
        return self._written < self._events or self._kills < self._events // EVENTS_OF_A_KILL

    def write(self, account_ids: list[int], seed: int) -> None:
        """Write events in transactions, fast and slow ones; some are rolled back."""
        choose = random.Random(seed)
        longest = LONGEST / 100 if self._is_sqlite else LONGEST
        with self.connect() as connection:
            while self.goes_on():
                count = choose.choice((1, 1, 5, MOST_OF_ONE))
                with self._lock:
                    marks = [next(self._marks) for _ in range(count)]
                rows = []
                for mark in marks:
                    account = choose.choice((0, *account_ids))
                    kind = "order.placed" if account else "pet.updated"
                    rows.append((account, kind, time.time_ns() // 1000, json.dumps({"mark": mark})))
                self.insert(connection, rows)
                if choose.random() < 0.3:
                    time.sleep(longest * choose.random())
                if choose.random() < 0.2:
                    connection.rollback()
                    self._undone.update(marks)
                else:
                    connection.commit()
                    with self._lock:
                        self._committed.update(marks)
                        self._written += count

    def create(self, key: str) -> None:
        """Add pets by the API; those that are acknowledged must be in the feed."""
        with self.service.client(key) as client:
            while self.goes_on():
                with suppress(httpx.TransportError):
                    answer = client.post("/pets", json={"name": "Pet", "categoryId": 1})
                    if answer.status_code == 201:
                        self._pets.add(answer.json()["id"])

    def add_many(self) -> None:
        """Import a file, in one transaction."""
        file = self.service.folder / "pets.csv"
        file.write_text("name,categoryId\n" + "Many,1\n" * IMPORTED)
        self.service.manage("import_pets", str(file))

    def kill(self) -> None:
        """Kill a worker every few seconds."""
        while not self._over.wait(KILLS_EVERY):
            with suppress(ProcessLookupError):
                os.kill(self.service.processes()[1], signal.SIGKILL)  # The one that has lived longest.
                self._kills += 1

    def wait_until_numbered(self) -> None:
        """Wait until no draft is left. Raises AssertionError after SETTLES_IN."""
        end = time.monotonic() + SETTLES_IN
        with self.connect() as connection:
            while self.rows(connection, "SELECT count(*) FROM accounts_eventdraft")[0][0]:
                connection.rollback()
                assert time.monotonic() < end, "The feed stands still."
                time.sleep(0.1)

    def compare(self, report: Report, followers: list[Follower]) -> None:
        """Note what is wrong of what each follower saw."""
        with self.connect() as connection:
            feed = self.rows(connection, IN_FEED)
            marks = self.rows(connection, "SELECT data FROM accounts_event WHERE data LIKE '{\"mark%'")
            pets = self.rows(connection, "SELECT data FROM accounts_event WHERE type = 'pet.created'")
        report.events = len(feed)
        found = Counter(json.loads(row[0])["mark"] for row in marks)
        created = {json.loads(row[0])["pet"]["id"] for row in pets}
        report.faults["not in the feed"] += len(self._committed - found.keys()) + len(self._pets - created)
        report.faults["of a rollback"] += len(self._undone & found.keys())
        report.faults["repeated"] += sum(count - 1 for count in found.values())
        for one in followers:
            mine = [
                number
                for number, account, kind in feed
                if account in (0, one.account_id) and kind.startswith(one.kind)
            ]
            seen = [number for number, _, _ in one.seen]
            report.faults["lost"] += len(set(mine) - set(seen))
            report.faults["foreign"] += len(set(seen) - set(mine))
            report.faults["repeated"] += len(seen) - len(set(seen))
            report.faults["out of order"] += sum(a >= b for a, b in pairwise(seen))

    def connect(self) -> Any:
        """Return a connection of its own to the service's database."""
        url = self.service.environment["DATABASE_URL"]
        if self._is_sqlite:
            path = urlsplit(url).path.removeprefix("/")
            return closing(sqlite3.connect(path, timeout=60, check_same_thread=False))
        return psycopg.connect(url)

    def insert(self, connection: Any, rows: list[tuple[Any, ...]]) -> None:
        if self._is_sqlite:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(INSERT.format("?"), rows)
        else:
            with connection.cursor() as cursor:
                cursor.executemany(INSERT.format("%s"), rows)

    def rows(self, connection: Any, query: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = connection.execute(query).fetchall()
        return found
