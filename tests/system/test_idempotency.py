"""Retries to a running service, concurrent or after a crash: D31."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import httpx
import pytest

from tests.support.live import Service, live_service
from tests.support.servers import wait_until

pytestmark = pytest.mark.each_database

RETRIES = 200
THREADS = 20
WORKERS = 4
TIMEOUT = 30  # Seconds that one client waits for a response.

CREATE_PET = """
import json
from inventory.models import Category, Pet
pet = Pet.objects.create(name="Biscuit", category=Category.objects.earliest("id"))
print(json.dumps([pet.pk, pet.category_id]))
"""
COUNT_ROWS = """
import json
from accounts.models import IdempotencyRecord
from inventory.models import Order, Pet
print(json.dumps([
    Pet.objects.filter(name={name!r}).count(),
    Order.objects.filter(pet_id={pet}).count(),
    IdempotencyRecord.objects.filter(idempotency_key={key!r}).count(),
]))
"""


class RepeatedRequest:
    """A request to the running service that is sent repeatedly."""

    def __init__(self, service: Service, operation: str, name: str) -> None:
        self.service = service
        self.name = self.key = f"{name} {operation}".replace(" ", "-")
        self.pet, category = json.loads(self.shell(CREATE_PET))
        self.api_key = service.issue_high_limit_key(self.name)
        self.is_pet = operation == "createPet"
        self.path = "/pets" if self.is_pet else "/store/orders"
        self.body = {"name": self.name, "categoryId": category} if self.is_pet else {"petId": self.pet}

    def shell(self, code: str) -> str:
        return self.service.manage("shell", "--no-imports", "-c", code)

    def count_rows(self) -> tuple[int, int]:
        """Return the numbers of rows and of records that the request has created."""
        pets, orders, records = json.loads(
            self.shell(COUNT_ROWS.format(name=self.name, pet=self.pet, key=self.key))
        )
        return (pets if self.is_pet else orders), records

    def send_until_served(self) -> httpx.Response:
        """Send the request like a real client, which retries lost connections, 503 and conflicts."""
        with self.service.client(self.api_key) as client:
            deadline = time.monotonic() + TIMEOUT
            while time.monotonic() < deadline:
                try:
                    response = client.post(self.path, json=self.body, headers={"Idempotency-Key": self.key})
                except httpx.TransportError:
                    continue
                if response.status_code != 503 and "idempotency_key_in_use" not in response.text:
                    return response
        raise AssertionError("The service has not responded.")

    def send_concurrently(
        self, on_response: Callable[[int], object] = lambda count: None
    ) -> list[httpx.Response]:
        """Send from many threads. Calls `on_response` with the number of responses so far."""
        with ThreadPoolExecutor(THREADS) as pool:
            futures = [pool.submit(self.send_until_served) for _ in range(RETRIES)]
            responses = []
            for future in as_completed(futures):
                responses.append(future.result())
                on_response(len(responses))
            return responses

    def check(self, responses: list[httpx.Response]) -> None:
        """Check that all responses are equal, and that there is one row."""
        assert len(responses) == RETRIES
        assert [response.text for response in responses if response.status_code != 201] == []
        assert len({(response.content, response.headers["Location"]) for response in responses}) == 1
        assert self.count_rows() == (1, 1)


OPERATIONS = pytest.mark.parametrize("operation", ["createPet", "placeOrder"])


@OPERATIONS
def test_200_concurrent_duplicates_make_one_row_and_one_response(service: Service, operation: str) -> None:
    request = RepeatedRequest(service, operation, "At once")
    responses = request.send_concurrently()
    request.check(responses)
    first = [response for response in responses if "Idempotent-Replayed" not in response.headers]
    assert len(first) == 1


@pytest.fixture(scope="module")
def own_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A separate service, since killing the shared one's workers would disturb other tests."""
    with live_service(tmp_path_factory.mktemp("own_service"), workers=WORKERS) as service:
        yield service


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="Finding the worker processes needs /proc."
)
@OPERATIONS
def test_retries_make_one_row_though_workers_are_killed_in_between(
    own_service: Service, operation: str
) -> None:
    request = RepeatedRequest(own_service, operation, "Killed")
    wait_until(lambda: len(own_service.processes()) == 1 + WORKERS)
    # Kill the oldest workers: if one dies right after its start, the server assumes broken code and exits.
    doomed = dict(zip((1, RETRIES // 4), own_service.processes()[1:], strict=False))

    def kill(count: int) -> None:
        if count in doomed:
            os.kill(doomed[count], signal.SIGKILL)

    request.check(request.send_concurrently(kill))
    assert not set(own_service.processes()) & set(doomed.values())
    wait_until(lambda: len(own_service.processes()) == 1 + WORKERS)


# Serves one request, and dies once the record is complete or right after the commit.
CRASH = """
import json, os, signal, sys
from django.db import connection, transaction
from django.test import Client

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def complete(execute, sql, *rest):
    result = execute(sql, *rest)
    if sql.startswith('UPDATE "accounts_idempotencyrecord"'):
        {crash}
    return result

with connection.execute_wrapper(complete):
    Client().post(
        "/v1{path}", {body!r}, content_type="application/json",
        headers={{"Authorization": "Bearer {api_key}", "Idempotency-Key": {key!r}}},
    )
"""


def crash(request: RepeatedRequest, statement: str) -> None:
    """Serve the request in a process that crashes."""
    code = CRASH.format(
        crash=statement,
        path=request.path,
        body=json.dumps(request.body),
        api_key=request.api_key,
        key=request.key,
    )
    status, _, err = request.service.commands.run("shell", "--no-imports", "-c", code)
    assert status == -signal.SIGKILL, err


@OPERATIONS
@pytest.mark.parametrize(
    ("statement", "rows"), [("die()", 0), ("transaction.on_commit(die)", 1)], ids=["before", "after"]
)
def test_crash_leaves_both_row_and_record_or_neither_and_the_retry_replays_or_writes(
    service: Service, operation: str, statement: str, rows: int
) -> None:
    """Before the commit there is neither, after it there are both."""
    request = RepeatedRequest(service, operation, f"Crash with {rows}")
    crash(request, statement)
    assert request.count_rows() == (rows, rows)
    response = request.send_until_served()
    assert response.status_code == 201
    assert ("Idempotent-Replayed" in response.headers) is bool(rows)
    assert response.headers["Location"].endswith(f"{request.path}/{response.json()['id']}")
    assert request.count_rows() == (1, 1)
