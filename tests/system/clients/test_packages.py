"""The client packages of both languages against the running service, as processes that use them."""

import base64
import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.live import ROOT, Service, live_service
from tests.support.servers import wait_until
from tests.system.clients.faulty_proxy import drop_connection, proxy, reject
from tests.system.clients.outputs import build_typescript, place_an_order, wait_for_event

HERE = Path(__file__).parent
MAX_IN_FLIGHT = 8

Start = Callable[..., subprocess.Popen[str]]
Run = Callable[..., Any]


@pytest.fixture(scope="module", params=["python", "typescript"])
def start(request: pytest.FixtureRequest) -> Start:
    """Starts a scenario with the package of each language."""
    if request.param == "python":
        command = [sys.executable, "-W", "error", str(HERE / "scenarios.py")]
        environment = {"PYTHONPATH": str(ROOT / "clients/python/src")}
    else:
        command = ["node", str(HERE / "scenarios.mjs")]
        environment = {"PETSTORE_CLIENT": str(build_typescript() / "petstore-client/dist/index.js")}

    def start(name: str, url: str, key: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command, name, f"{url}/v1", key, json.dumps(options)],
            env=os.environ | environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return start


@pytest.fixture(scope="module")
def run(start: Start) -> Run:
    """Runs a scenario; returns what it prints."""

    def run(*arguments: Any, **options: Any) -> Any:
        return finish(start(*arguments, **options))

    return run


def finish(process: subprocess.Popen[str]) -> Any:
    with process:
        output, messages = process.communicate(timeout=150)
    assert process.returncode == 0, messages
    return json.loads(output)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with live_service(tmp_path_factory.mktemp("shop"), workers=2) as service:
        service.manage("seed_demo", "--pets", "300")
        yield service


@pytest.fixture
def key(shop: Service, request: pytest.FixtureRequest) -> str:
    return str(shop.issue(request.node.name)["key"])


def issue_limited(shop: Service, name: str, *, per_minute: int = 1000, per_day: int = 100_000) -> str:
    numbers = ("--per-minute", str(per_minute), "--per-day", str(per_day))
    return str(shop.issue(name, "enterprise", *numbers)["key"])


def test_lists_creates_orders_and_cancels(shop: Service, run: Run, key: str) -> None:
    result = run("journey", shop.url, key)
    with shop.client(key) as client:
        categories = len(client.get("/categories?limit=100").json())
    assert result.pop("pets") > 1
    assert result == {
        "ascending": True, "batch": [["Marble", "available"], ["Rex", "sold"]],
        "categories": categories, "order": [True, "placed", "cancelled"],
        "by_ids": ["Biscuit"], "orders": [True], "plan": "business", "limit": 1000,
    }  # fmt: skip


def test_errors_carry_code_fields_request_id_and_quota(shop: Service, run: Run, key: str) -> None:
    assert run("errors", shop.url, key) == [
        [401, "invalid_api_key", [], True, True],
        [400, "invalid_field", ["categoryId", "name"], True, True],
        [400, "invalid_field", ["1name"], True, True],
        [404, "order_not_found", [], True, True],
        [400, "invalid_parameter", [], True, True],
    ]


# The first request of a minute that ends in six seconds.
START_MINUTE = """
import time
from ipaddress import IPv4Address
from accounts.keys import key_format
from accounts.quota import store
store.admit(key_format.parse({key!r}), IPv4Address("192.0.2.1"), time.time_ns() // 1000 - 54_000_000)
"""


def test_40_workers_on_one_key_wait_together_and_are_never_banned(
    shop: Service, run: Run, request: pytest.FixtureRequest
) -> None:
    key = issue_limited(shop, request.node.name, per_minute=26)
    shop.manage("shell", "--no-imports", "-c", START_MINUTE.format(key=key))
    with proxy(shop) as before:
        assert run("wait_together", before.url, key, client={"max_wait": 60}) == {"1": 40}
    rejections = [exchange for exchange in before.exchanges if exchange.status == 429]
    assert 1 <= len(rejections) <= MAX_IN_FLIGHT
    check_waits(before.exchanges)
    with shop.client(key) as client:
        assert client.get("/account").json()["ban"] is None
        types = client.get("/events?type=key&limit=100").json()
    assert [event["type"] for event in types] == ["key.issued"]


def check_waits(exchanges: list[Any]) -> None:
    """Only requests that were in flight at the time of the first 429 arrive before its Retry-After ends."""
    first = min((each for each in exchanges if each.status == 429), key=lambda each: each.answered)
    end = first.answered + first.retry_after
    early = [each for each in exchanges if first.answered < each.arrived < end]
    assert len(early) < MAX_IN_FLIGHT
    assert all(each.arrived - first.answered < 1 for each in early)


def test_errors_that_are_ignored_send_nothing_until_the_day_resets(
    shop: Service, run: Run, request: pytest.FixtureRequest
) -> None:
    key = issue_limited(shop, request.node.name, per_day=1)
    with proxy(shop) as before:
        result = run("ignore_errors", before.url, key)
    assert result["code"] == "daily_quota_exceeded"
    assert result["ban"] is None
    assert (
        0 <= result["late"] < 10
    )  # Retry-After is rounded up, and counts from the arrival of the response.
    assert len(before.exchanges) <= 1 + MAX_IN_FLIGHT + 1  # The last is GET /account.


@pytest.mark.parametrize("as_date", [False, True])
def test_ban_is_reported_at_once(shop: Service, run: Run, key: str, *, as_date: bool) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=300), usegmt=True)
    with proxy(shop) as before:
        banned = partial(reject, seconds=date if as_date else 300, code="api_key_banned")
        before.actions = [banned] * MAX_IN_FLIGHT
        [(result, count)] = run("wait_together", before.url, key, client={"max_wait": 60}).items()
    assert (count, "api_key_banned" in result) == (40, True)
    assert len(before.exchanges) <= MAX_IN_FLIGHT


def test_order_is_placed_once_though_connections_break(shop: Service, run: Run, key: str) -> None:
    with shop.client(key) as client, proxy(shop) as before:
        pet = client.get("/pets?status=available&limit=1").json()[0]["id"]
        before.actions = [drop_connection, partial(reject, seconds=1)]
        assert run("place", before.url, key, pet=pet) is True
        assert len(client.get("/store/orders").json()) == 1
    assert [exchange.method for exchange in before.exchanges] == ["POST"] * 3
    assert before.exchanges[2].arrived - before.exchanges[1].answered >= 1


def test_slow_body_times_out(shop: Service, run: Run, key: str) -> None:
    released = threading.Event()

    def send_slowly(handler: BaseHTTPRequestHandler, _: httpx.Response) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        with handler.wfile as body:
            while not released.wait(0.05):  # Longer than each read may take in total.
                try:
                    body.write(b" ")
                    body.flush()
                except OSError:
                    return

    with proxy(shop) as before:
        before.actions = [send_slowly, send_slowly]
        try:
            limits = {"timeout": 0.4, "retries": 1}
            assert run("time_out", before.url, key, client=limits) == "ConnectionFailedError"
            wait_until(lambda: len(before.exchanges) >= 2)  # On a busy machine, the proxy is late.
        finally:
            released.set()
    assert len(before.exchanges) == 2


def test_deprecated_operation_warns_once(shop: Service, run: Run, key: str) -> None:
    with shop.client(key) as client:
        pet = client.get("/pets?limit=1").json()[0]["id"]
    message = "getPet is deprecated. It will be removed on Thu, 05 Dec 2030 00:00:00 GMT."
    assert run("warn", shop.url, key, pet=pet) == [message]


@contextmanager
def events_of_orders(shop: Service, key: str) -> Iterator[tuple[httpx.Client, int]]:
    """Place and cancel an order, which makes two events."""
    with shop.client(key) as client:
        order = place_an_order(client).json()["id"]
        client.delete(f"/store/orders/{order}").raise_for_status()
        wait_for_event(client, "/events?type=order.cancelled")
        yield client, order


def test_follower_continues_after_its_restart_and_after_expired_cursors(
    shop: Service, run: Run, key: str
) -> None:
    with events_of_orders(shop, key) as (client, order):
        first = run("follow", shop.url, key, type="order", until=2, since=True)
        assert first["lost"] == ["cursor_expired"]
        client.post("/store/orders", json={"petId": pet_of(client, order)}).raise_for_status()
        second = run("follow", shop.url, key, type="order", until=1, cursor=first["cursor"])
        feed = [event["id"] for event in client.get("/events?type=order").json()]
    assert first["seen"] + second["seen"] == feed


def pet_of(client: httpx.Client, order: int) -> Any:
    return client.get(f"/store/orders/{order}").json()["petId"]


def test_follower_survives_the_restart_of_the_service(shop: Service, start: Start, key: str) -> None:
    with events_of_orders(shop, key) as (client, order):
        follower = start("follow", shop.url, key, type="order", until=3)
        assert follower.stderr is not None
        for _ in range(2):
            follower.stderr.readline()
        pet = pet_of(client, order)
    shop.stop()
    shop.start(2)
    with shop.client(key) as client:
        client.post("/store/orders", json={"petId": pet}).raise_for_status()
    assert len(finish(follower)["seen"]) == 3


def test_webhook_is_verified_with_either_secret(run: Run) -> None:
    secrets = ["whsec_" + base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2)]
    body = '{"id": 9007199254740993, "type": "webhook.ping", "createdAt": "2026-11-28T12:00Z", "data": {}}'
    digest = hmac.digest(bytes([2]) * 32, f"evt_1.1000.{body}".encode(), hashlib.sha256)
    headers = {
        "Webhook-Id": "evt_1", "webhook-timestamp": "1000",
        "webhook-signature": f"v1,AAAA v1,{base64.b64encode(digest).decode()}",
    }  # fmt: skip

    def verify(**changes: Any) -> Any:
        sent = {"headers": headers, "body": body, "secrets": secrets, "now": 1001} | changes
        return run("webhook", "http://unused", "unused", **sent)

    assert verify() == "9007199254740993"
    rejected: list[dict[str, Any]] = [
        {"now": 1301},
        {"now": 699},
        {"body": body + " "},
        {"secrets": secrets[0]},
        {"secrets": "kkk"},  # Not in Base64.
        {"headers": {}},
    ]
    assert [verify(**change) for change in rejected] == ["WebhookError"] * 6
