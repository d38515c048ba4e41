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

SHOP = """
import json
from inventory.models import Category, Pet
pet = Pet.objects.create(name="Biscuit", category=Category.objects.earliest("id"))
print(json.dumps([pet.pk, pet.category_id]))
"""
ROWS = """
import json
from accounts.models import IdempotencyRecord
from inventory.models import Order, Pet
print(json.dumps([
    Pet.objects.filter(name={name!r}).count(),
    Order.objects.filter(pet_id={pet}).count(),
    IdempotencyRecord.objects.filter(key={key!r}).count(),
]))
"""


class Stall:
    """The running service, and one request to repeat."""

    def __init__(self, service: Service, operation: str, name: str) -> None:
        self.service = service
        self.name = self.key = f"{name} {operation}".replace(" ", "-")
        self.pet, category = json.loads(self.shell(SHOP))
        self.api_key = service.roomy_key(self.name)
        self.is_pet = operation == "createPet"
        self.path = "/pets" if self.is_pet else "/store/orders"
        self.body = {"name": self.name, "categoryId": category} if self.is_pet else {"petId": self.pet}

    def shell(self, code: str) -> str:
        return self.service.manage("shell", "--no-imports", "-c", code)

    def rows(self) -> tuple[int, int]:
        """How many rows the request has created, and how many records."""
        pets, orders, records = json.loads(
            self.shell(ROWS.format(name=self.name, pet=self.pet, key=self.key))
        )
        return (pets if self.is_pet else orders), records

    def insist(self) -> httpx.Response:
        """Send the request like a real client: retry when the connection breaks or on request."""
        with self.service.client(self.api_key) as client:
            end = time.monotonic() + TIMEOUT
            while time.monotonic() < end:
                try:
                    answer = client.post(self.path, json=self.body, headers={"Idempotency-Key": self.key})
                except httpx.TransportError:
                    continue
                if answer.status_code != 503 and "idempotency_key_in_use" not in answer.text:
                    return answer
        raise AssertionError("The service has not answered.")

    def hammer(self, after: Callable[[int], object] = lambda answers: None) -> list[httpx.Response]:
        """Insist from many threads concurrently. Calls `after` with the number of responses so far."""
        with ThreadPoolExecutor(THREADS) as pool:
            sent = [pool.submit(self.insist) for _ in range(RETRIES)]
            answers = []
            for one in as_completed(sent):
                answers.append(one.result())
                after(len(answers))
            return answers

    def check(self, answers: list[httpx.Response]) -> None:
        """Check that all responses are equal, and that there is one row."""
        assert len(answers) == RETRIES
        assert {answer.status_code for answer in answers} == {201}, [one.text for one in answers]
        assert len({(answer.content, answer.headers["Location"]) for answer in answers}) == 1
        assert self.rows() == (1, 1)


OPERATIONS = pytest.mark.parametrize("operation", ["createPet", "placeOrder"])


@OPERATIONS
def test_200_concurrent_duplicates_make_one_row_and_one_response(service: Service, operation: str) -> None:
    stall = Stall(service, operation, "At once")
    answers = stall.hammer()
    stall.check(answers)
    first = [answer for answer in answers if "Idempotent-Replayed" not in answer.headers]
    assert len(first) == 1


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A separate service: killing the workers of the shared one would disturb other tests."""
    with live_service(tmp_path_factory.mktemp("mortal"), workers=WORKERS) as service:
        yield service


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="No /proc tells a process's children.")
@OPERATIONS
def test_retries_make_one_row_though_workers_are_killed_in_between(mortal: Service, operation: str) -> None:
    stall = Stall(mortal, operation, "Killed")
    wait_until(lambda: len(mortal.processes()) == 1 + WORKERS)
    # The oldest: if a worker dies just after its start, the server blames broken code and exits.
    doomed = dict(zip((1, RETRIES // 4), mortal.processes()[1:], strict=False))

    def kill(answers: int) -> None:
        if answers in doomed:
            os.kill(doomed[answers], signal.SIGKILL)

    stall.check(stall.hammer(kill))
    assert not set(mortal.processes()) & set(doomed.values())
    wait_until(lambda: len(mortal.processes()) == 1 + WORKERS)


# Serves one request, and dies once the record is complete, or just after the commit.
CRASH = """
import json, os, signal, sys
from django.db import connection, transaction
from django.test import Client

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def complete(execute, sql, *rest):
    done = execute(sql, *rest)
    if sql.startswith('UPDATE "accounts_idempotencyrecord"'):
        {end}
    return done

with connection.execute_wrapper(complete):
    Client().post(
        "/v1{path}", {body!r}, content_type="application/json",
        headers={{"Authorization": "Bearer {api_key}", "Idempotency-Key": {key!r}}},
    )
"""


def crash(stall: Stall, end: str) -> None:
    """Serve the request in a process that dies."""
    code = CRASH.format(
        end=end, path=stall.path, body=json.dumps(stall.body), api_key=stall.api_key, key=stall.key
    )
    status, _, err = stall.service.commands.run("shell", "--no-imports", "-c", code)
    assert status == -signal.SIGKILL, err


@OPERATIONS
@pytest.mark.parametrize(
    ("end", "rows"), [("die()", 0), ("transaction.on_commit(die)", 1)], ids=["before", "after"]
)
def test_crash_leaves_both_row_and_record_or_neither_and_the_retry_replays_or_writes(
    service: Service, operation: str, end: str, rows: int
) -> None:
    """Neither before the commit, both after it."""
    stall = Stall(service, operation, f"Crash with {rows}")
    crash(stall, end)
    assert stall.rows() == (rows, rows)
    answer = stall.insist()
    assert answer.status_code == 201
    assert ("Idempotent-Replayed" in answer.headers) is bool(rows)
    assert answer.headers["Location"].endswith(f"{stall.path}/{answer.json()['id']}")
    assert stall.rows() == (1, 1)
