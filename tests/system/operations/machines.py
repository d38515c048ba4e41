"""Service instances on a test's databases, and customers that send continuously."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.support.live import Service, live_service
from tests.support.postgresql import programs
from tests.support.skips import needs_program
from tests.support.sql import select
from tests.support.thorough import times

PAUSE = (
    times(0, 50) / 1000
)  # Seconds before a customer's next request; none in CI, to keep the service busy.
ON_SQLITE = os.environ.get("DATABASE_URL", "").startswith("sqlite")
OWN_SERVERS = [
    pytest.mark.skipif(ON_SQLITE, reason="It starts its own PostgreSQL: one run is enough."),
    needs_program(programs(), "PostgreSQL's server"),
]


def instance(
    folder: Path, url: str, *, workers: int = 2, **environment: str
) -> AbstractContextManager[Service]:
    """A running service on this migrated database; keyword arguments are environment variables."""
    folder.mkdir(exist_ok=True)
    return live_service(folder, workers=workers, DATABASE_URL=url, **environment)


class Outcome(NamedTuple):
    """The outcome of a request; times by the monotonic clock, in seconds."""

    sent: float
    took: float
    status: int  # 0 if there was no response.
    body: Any
    retry_after: str

    @property
    def arrived(self) -> float:
        return self.sent + self.took


def read(response: httpx.Response) -> Any:
    """A body's JSON, or its text if it is not JSON, as with errors of a proxy."""
    try:
        return response.json()
    except ValueError:
        return response.text


class Customers:
    """Threads that send requests one after another until they are stopped."""

    def __init__(
        self, count: int, url: str, key: str, send: Callable[[httpx.Client], httpx.Response]
    ) -> None:
        self.outcomes: list[list[Outcome]] = [[] for _ in range(count)]
        self._url = f"{url}/v1"
        self._headers = {"Authorization": f"Bearer {key}"}
        self._send = send
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=[mine]) for mine in self.outcomes]

    def __enter__(self) -> "Customers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()

    def _run(self, mine: list[Outcome]) -> None:
        with httpx.Client(timeout=30, base_url=self._url, headers=self._headers) as client:
            while not self._done.is_set():
                sent = time.monotonic()
                try:
                    response = self._send(client)
                    status, body = response.status_code, read(response)
                    retry_after = response.headers.get("Retry-After", "")
                except httpx.HTTPError as error:
                    status, body, retry_after = 0, repr(error), ""
                mine.append(Outcome(sent, time.monotonic() - sent, status, body, retry_after))
                # Backs off a little.
                self._done.wait(PAUSE if status == 200 else max(PAUSE, 0.02))

    @property
    def all(self) -> list[Outcome]:
        """All outcomes so far, unordered."""
        return [outcome for mine in self.outcomes for outcome in mine]

    def statuses(self, since: float = 0) -> Counter[int]:
        """Count the statuses of requests that were sent since then."""
        return Counter(outcome.status for outcome in self.all if outcome.sent >= since)

    def each_got(self, status: int, since: float) -> bool:
        """Whether every customer's latest outcome is this one, of a request sent since then."""
        return all(mine and mine[-1].sent >= since and mine[-1].status == status for mine in self.outcomes)


def add_and_order(client: httpx.Client) -> httpx.Response:
    """Add a pet, and order it."""
    added = client.post("/pets", json={"name": "Rex", "categoryId": 1})
    return client.post("/store/orders", json={"petId": added.json()["id"]}) if added.is_success else added


def check_orders(load: Customers, database: str) -> None:
    """Check that the acknowledged orders and their pets are in the database, each pet once."""
    acknowledged = {
        outcome.body["id"]: outcome.body["petId"] for outcome in load.all if outcome.status == 201
    }
    stored = dict(select(database, "SELECT id, pet_id FROM inventory_order"))
    pets = {row[0] for row in select(database, "SELECT id FROM inventory_pet")}
    assert acknowledged.items() <= stored.items()
    assert set(stored.values()) <= pets
    assert len(set(stored.values())) == len(stored)
