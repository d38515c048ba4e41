"""Locks that another session holds delay no other account, and never turn into a 5xx but 503."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import psycopg
import pytest

from tests.support.live import Service, live_service
from tests.support.skips import NEEDS_POSTGRESQL

pytestmark = NEEDS_POSTGRESQL

LOCK_SECONDS = 0.25  # See accounts/quota/sql.py.
RESPONSE_SECONDS = 1.3
OTHERS = 6  # Accounts, so that some share each connection with the locked one.
BURST = 24  # Concurrent requests of the locked account.
ROWS = {
    "account": "SELECT FROM accounts_account WHERE id = %s",
    "key": "SELECT FROM accounts_apikey WHERE account_id = %s",
    "rate-limit state": """
        SELECT FROM accounts_ratelimitstate AS s JOIN accounts_apikey AS k ON k.id = s.key_id
        WHERE k.account_id = %s""",
    "counter": "SELECT FROM accounts_quotausage WHERE account_id = %s",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One event loop, so that all accounts share its connections."""
    with live_service(tmp_path_factory.mktemp("locks"), workers=1) as service:
        yield service


@contextmanager
def locked(service: Service, account: str, *rows: str) -> Iterator[None]:
    """Hold locks on rows of an account, as another session."""
    with psycopg.connect(service.environment["DATABASE_URL"]) as session:
        found = session.execute("SELECT id FROM accounts_account WHERE name = %s", [account]).fetchone()
        assert found is not None
        for row in rows:
            cursor = session.execute(f"{ROWS[row]} FOR UPDATE".encode(), [found[0]])
            assert cursor.rowcount >= 1, row
        yield


def send(service: Service, key: str) -> tuple[httpx.Response, float]:
    """Send a request; return the response and its seconds."""
    with service.client(key) as client:
        started = time.monotonic()
        return client.get("/pets?limit=1"), time.monotonic() - started


def prepare(service: Service, name: str) -> str:
    """Issue a key of a new account whose rows all exist."""
    key = service.issue_high_limit_key(name)
    with service.client(key) as client:
        client.get("/account").raise_for_status()  # A peek, which has a rate-limit state.
        client.get("/pets?limit=1").raise_for_status()
    return key


def test_locks_on_account_key_and_state_delay_no_request(service: Service) -> None:
    key = prepare(service, "Edited")
    with locked(service, "Edited", "account", "key", "rate-limit state"):
        for _ in range(20):
            response, seconds = send(service, key)
            assert (response.status_code, seconds < LOCK_SECONDS) == (200, True)


def test_lock_on_a_counter_rejects_its_account_in_time_and_no_other(service: Service) -> None:
    key = prepare(service, "Locked")
    others = [prepare(service, f"Other {number}") for number in range(OTHERS)]
    with locked(service, "Locked", *ROWS), ThreadPoolExecutor(BURST + OTHERS) as pool:
        blocked = [pool.submit(send, service, key) for _ in range(BURST)]
        first = [future.result() for future in [pool.submit(send, service, other) for other in others]]
        blocked += [pool.submit(send, service, key) for _ in range(BURST)]
        rejected = [future.result() for future in blocked]
        for _ in range(5):
            again = [pool.submit(send, service, key) for _ in range(BURST)]
            beside = [pool.submit(send, service, other) for other in others * 4]
            later = [future.result() for future in beside]
            rejected += [future.result() for future in again]
            assert {response.status_code for response, _ in (*first, *later)} == {200}
            if max(seconds for _, seconds in later) < LOCK_SECONDS:  # Otherwise a busy machine delayed one.
                break
    assert max(seconds for _, seconds in first) < RESPONSE_SECONDS
    assert max(seconds for _, seconds in later) < LOCK_SECONDS  # None waits behind the locked account.
    assert {response.status_code for response, _ in rejected} == {503}
    assert {response.headers["Retry-After"] for response, _ in rejected} == {"2"}
    assert max(seconds for _, seconds in rejected) < RESPONSE_SECONDS
    assert {send(service, key)[0].status_code for _ in range(5)} == {200}


def test_rejected_request_waits_for_a_quarter_of_a_second_and_is_not_counted(service: Service) -> None:
    key = prepare(service, "Patient")
    with locked(service, "Patient", "counter"):
        response, seconds = send(service, key)
    assert response.status_code == 503
    assert LOCK_SECONDS <= seconds < RESPONSE_SECONDS
    response, _ = send(service, key)
    used = int(response.headers["X-RateLimit-Limit"]) - int(response.headers["X-RateLimit-Remaining"])
    assert used == 2
