"""Endpoints get each of their events in order and at least once, although processes are killed (D54).

RACE_EVENTS=20000 races more of them.
"""

import json
import os
import random
import signal
import time
from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import pytest
import standardwebhooks

from accounts.webhooks.signing import derive_secret
from tests.support.live import Service, live_service
from tests.support.preloaded import Forked
from tests.support.receiver import receiving
from tests.support.servers import wait_until
from tests.support.sql import connect_to, insert, select
from tests.support.thorough import times

EVENTS = int(os.environ.get("RACE_EVENTS", times(1_500, 400)))
KILL_SECONDS = 1.0
SETTLE_SECONDS = 120
RESPONSE_SECONDS = 0.01  # Of a receiver, so that something is in flight when a process is killed.
ENDPOINTS = [(0, "order"), (0, "order pet"), (1, "order"), (1, "pet"), (0, "key"), (1, "order key")]
ACCOUNTS = ("First", "Second")
pytestmark = pytest.mark.each_database


class Receivers:
    """Receivers of all endpoints. Each fails a few times, and verifies what it gets."""

    def __init__(self, pepper: bytes, names: list[str]) -> None:
        self.received: dict[str, list[int]] = defaultdict(list)
        self._hooks = {name: standardwebhooks.Webhook(derive_secret(pepper, name, 1)) for name in names}
        self._failures = dict.fromkeys(names, 2)
        self._lock = Lock()

    def handle(self, connection: Any, request: bytes) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        name = first.split()[1].removeprefix("/")
        headers = dict(line.split(": ", 1) for line in lines)
        event = self._hooks[name].verify(body.decode(), headers)
        assert headers["webhook-id"] == f"evt_{event['id']}"
        time.sleep(RESPONSE_SECONDS)
        with self._lock:
            if self._failures[name] and random.random() < 0.05:
                self._failures[name] -= 1
                if self._failures[name]:
                    connection.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
                return
            self.received[name].append(event["id"])
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def add_endpoints(database: Any, account_ids: list[int], port: int) -> list[str]:
    names = [f"endpoint{number:06}" for number in range(len(ENDPOINTS))]
    rows = [
        {
            "account_id": account_ids[account], "public_id": name, "types": types, "description": "",
            "url": f"http://127.0.0.1:{port}/{name}", "created_at": datetime.now(UTC).isoformat(" "),
            "disabled_by": "", "secret_version": 1, "pepper_number": 1, "position": 0, "attempts": 0,
            "lease": "",
        }
        for name, (account, types) in zip(names, ENDPOINTS, strict=True)
    ]  # fmt: skip
    insert(database, "accounts_webhookendpoint", rows)
    database.commit()
    return names


def write_events(database: Any, account_ids: list[int], finished: Event) -> None:
    rng, written = random.Random(1), 0
    while written < EVENTS:
        rows = []
        for _ in range(rng.choice((1, 1, 5, 40))):
            account = rng.choice((0, *account_ids))
            kind = rng.choice(("order.placed", "key.issued", "plan.changed")) if account else "pet.updated"
            now = time.time_ns() // 1000
            rows.append({"account_id": account, "type": kind, "created_at": now, "data": json.dumps({})})
        insert(database, "accounts_outboxevent", rows)
        database.commit()
        written += len(rows)
        finished.wait(0.2 * rng.random())
    finished.set()


def start_process(service: Service) -> Forked:
    """Start `deliver_webhooks`, beside the workers, and wait until it delivers."""
    output = service.folder / "deliver.log"
    with output.open("wb") as out, (service.folder / "serve.log").open("ab") as log:
        process = service.commands.start("deliver_webhooks", stdout=out, stderr=log)
    wait_until(lambda: "Delivering" in output.read_text())
    return process


def stop_process(process: Forked, number: int) -> None:
    process.send_signal(number)
    assert process.wait() == (0 if number == signal.SIGTERM else -number)


def kill_processes(service: Service, finished: Event) -> None:
    """Kill or stop a worker or `deliver_webhooks` every second, at least once each."""
    process = start_process(service)
    for kills, number in enumerate(cycle((signal.SIGKILL, signal.SIGTERM))):
        if finished.wait(KILL_SECONDS) and kills >= 3:
            break
        with suppress(ProcessLookupError):
            if kills % 3 == 1:
                stop_process(process, number)
                process = start_process(service)
            else:
                os.kill(service.processes()[1], signal.SIGKILL)  # The oldest worker.
        if finished.is_set():
            time.sleep(KILL_SECONDS)
    stop_process(process, signal.SIGTERM)


def end_waits(database: Any, condition: str) -> None:
    database.execute(
        "UPDATE accounts_webhookendpoint SET next_attempt_at = created_at"
        f" WHERE next_attempt_at IS NOT NULL AND {condition}"
    )
    database.commit()


def wait_until_delivered(
    database: Any, expected: dict[str, list[int]], received: dict[str, list[int]]
) -> None:
    end = time.monotonic() + SETTLE_SECONDS
    while any(set(ids) - set(received[name]) for name, ids in expected.items()):
        assert time.monotonic() < end, {name: len(ids) for name, ids in received.items()}
        end_waits(database, "lease = ''")  # As if the pauses after failures had passed.
        time.sleep(0.1)


def test_endpoints_get_their_events_in_order_although_processes_are_killed(tmp_path: Path) -> None:
    options = {"WEBHOOK_ALLOW_NETWORKS": "127.0.0.1/32", "API_KEY_PEPPERS": "1:of-the-race"}
    names = [f"endpoint{number:06}" for number in range(len(ENDPOINTS))]
    receivers = Receivers(b"of-the-race", names)
    with (
        receiving(receivers.handle) as receiver,
        live_service(tmp_path, workers=2, **options) as service,
        connect_to(service.environment["DATABASE_URL"]) as database,
    ):
        url = service.environment["DATABASE_URL"]
        for name in ACCOUNTS:
            service.issue_high_limit_key(name)
        ids = [row[0] for row in select(url, "SELECT id FROM accounts_account ORDER BY id")]
        add_endpoints(database, ids, receiver.port)
        finished = Event()
        killing = Thread(target=kill_processes, args=[service, finished])
        killing.start()
        write_events(database, ids, finished)
        killing.join()
        end_waits(database, "lease <> ''")  # As if those of killed processes had expired.
        while select(url, "SELECT count(*) FROM accounts_outboxevent")[0][0]:
            time.sleep(0.1)
        feed = select(url, "SELECT id, account_id, type FROM accounts_event ORDER BY id")
        expected = {
            name: [
                event_id
                for event_id, account, kind in feed
                if account in (0, ids[owner]) and kind.startswith(tuple(types.split()))
            ]
            for name, (owner, types) in zip(names, ENDPOINTS, strict=True)
        }
        wait_until_delivered(database, expected, receivers.received)
    first_times = {name: list(dict.fromkeys(received)) for name, received in receivers.received.items()}
    assert first_times == expected
    repeated = sum(map(len, receivers.received.values())) - sum(map(len, expected.values()))
    assert repeated < 100, "More was repeated than what was in flight."
