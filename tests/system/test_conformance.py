"""The conformance suite passes on the running service, and finds the faults of a broken deployment."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from schemathesis.core.failures import FailureGroup
from schemathesis.generation import GenerationMode

from tests.conformance import test_document as document
from tests.conformance import test_rules as rules
from tests.conformance.client import LONGEST_WAIT_SECONDS, Client, connect
from tests.support.live import ROOT, Service
from tests.system.broken import (
    FEED_RULE,
    VARIANTS,
    Variant,
    body,
    broken,
    rejected_without_retry_after,
    with_string_ids,
    with_wrong_error_codes,
)

VIOLATIONS = (AssertionError, LookupError, TypeError, ValueError, FailureGroup)
COUNT = """
from inventory.models import Order, Pet
print(Pet.objects.count(), Order.objects.filter(status="placed").count())
"""
accounts = itertools.count()


@pytest.fixture(scope="module")
def shop(service: Service) -> Service:
    """The service with pets in it."""
    service.manage("seed_demo", "--pets", "60")
    return service


@pytest.fixture
def key(shop: Service) -> str:
    """The key of a new account: each key may fetch its account 60 times a minute."""
    return shop.issue_high_limit_key(f"Conformance {next(accounts)}")


# --- Passing


def run_suite(url: str, key: str, *, write: bool) -> subprocess.CompletedProcess[str]:
    """Run the suite as `make conformance` does; with `write`, it also creates a pet and orders it."""
    environment = {"CONFORMANCE_URL": url, "CONFORMANCE_KEY": key, "CONFORMANCE_WRITE": "1" * write}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-s", "tests/conformance"]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, check=False, capture_output=True, text=True
    )


@pytest.mark.each_database
def test_running_service_passes_and_one_pet_is_left_only_if_the_suite_may_write(
    shop: Service, key: str
) -> None:
    """It writes on PostgreSQL."""
    write = connection.vendor == "postgresql"
    pets, orders = map(int, shop.manage("shell", "--no-imports", "-c", COUNT).split())
    done = run_suite(f"{shop.url}/v1", key, write=write)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("Left behind: pet ") == done.stderr.count("Left behind") == write
    assert key not in done.stdout + done.stderr
    after = shop.manage("shell", "--no-imports", "-c", COUNT).split()
    assert after == [str(pets + write), str(orders)]


# --- Failing


def never_wait(seconds: float) -> None:
    raise AssertionError("The quota of this key suffices.")


def prepare(rule: Callable[..., None], client: Client) -> None:
    """Send what the rule examines."""
    if rule is FEED_RULE:
        rules.test_feed_end_has_a_cursor(client)
        rules.test_pet_is_created_ordered_and_released(client)
    elif rule.__name__.startswith("test_every_"):
        for _ in range(20):
            client.get("/pets?limit=1")


def check(rule: Callable[..., None], client: Client) -> None:
    """Check a rule; for rejections, with each request."""
    arguments: list[tuple[Any, ...]] = [()]
    if rule is rules.test_request_is_rejected:
        arguments = list(rules.REJECTIONS)
    for more in arguments:
        rule(client, *more)


@pytest.mark.parametrize(("variant", "rule"), VARIANTS)
def test_violation_is_detected(
    shop: Service, key: str, variant: Variant, rule: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "POLL_DELAYS", (0, 0.3))  # What is lost never comes.
    with broken(shop, variant) as url, Client(url, key, wait=never_wait) as client:
        prepare(rule, client)
        with pytest.raises(VIOLATIONS):
            check(rule, client)


def test_every_rejection_needs_its_own_code(shop: Service, key: str) -> None:
    with broken(shop, with_wrong_error_codes) as url, Client(url, key) as client:
        for row in rules.REJECTIONS:
            with pytest.raises(AssertionError):
                rules.test_request_is_rejected(client, *row)


def test_generated_reads_find_undocumented_responses(shop: Service, key: str) -> None:
    with (
        broken(shop, body("/v1/pets", with_string_ids)) as url,
        Client(url, key) as client,
        pytest.raises(FailureGroup),
    ):
        document.test_response_to_generated_read_is_as_documented(
            client, "GET /pets", GenerationMode.POSITIVE
        )


# --- Quota of the key


def test_run_stops_after_a_429(shop: Service, key: str) -> None:
    with broken(shop, rejected_without_retry_after) as url, Client(url, key) as client:
        for _ in range(19):
            client.get("/categories")
        assert client.get("/categories").status_code == 429
        with pytest.raises(pytest.skip.Exception, match="got 429"):
            client.get("/categories")
        assert client.incomplete


def test_a_quarter_of_the_quota_is_left_to_others(shop: Service) -> None:
    for per_day, waits_for_next_minute in (("1000", True), ("20", False)):
        limits = ("--per-minute", "20" if waits_for_next_minute else "1000", "--per-day", per_day)
        small = shop.issue(f"Small {per_day}", "enterprise", *limits)["key"]
        waits: list[float] = []
        with Client(f"{shop.url}/v1", small, wait=waits.append) as client:
            for _ in range(15):
                client.get("/categories")
            assert not waits
            if waits_for_next_minute:
                client.get("/categories")
                assert 0 < waits[0] <= LONGEST_WAIT_SECONDS
            else:
                with pytest.raises(pytest.skip.Exception, match="Only 5 of 20"):
                    client.get("/categories")


def test_missing_scope_makes_a_run_incomplete(shop: Service) -> None:
    narrow = shop.issue("Deaf", "business", "--scopes", "pets:read")["key"]
    with (
        Client(f"{shop.url}/v1", narrow) as client,
        pytest.raises(pytest.skip.Exception, match="lacks a scope"),
    ):
        rules.test_feed_end_has_a_cursor(client)
    assert client.incomplete


# --- The command line


@pytest.mark.parametrize(
    ("url", "key", "reason"),
    [
        ("localhost:8000/v1", "psk_live_x", "is not an API address"),
        ("https://api.example.com", "psk_live_x", "is not an API address"),
        ("http://localhost/v1", "", "Set KEY"),
        ("http://127.0.0.1:1/v1", "psk_live_x", "does not respond"),
        ("", "psk_live_wrong", "rejects the key"),
    ],
)
def test_unusable_address_or_key_ends_the_run(shop: Service, url: str, key: str, reason: str) -> None:
    with pytest.raises(pytest.exit.Exception, match=reason) as exit_:
        connect(url or f"{shop.url}/v1", key)
    assert exit_.value.returncode == 2
