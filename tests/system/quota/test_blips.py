"""Short outages of Redis: limits, fallback and mismatched replies (D21)."""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from accounts.quota.database_store import DatabaseQuotaStore
from accounts.quota.fallback import FallbackQuotaStore
from accounts.quota.redis_store import (
    ADMIT,
    MismatchedReplyError,
    RecordEvictedError,
    RedisQuotaStore,
    finish_admit,
    get_redis_keys,
)
from accounts.quota.store_protocol import QuotaResult
from django.db import OperationalError
from petstore.event_loop.redis_scripts import Script, ScriptRunner

from accounts.keys import key_format
from accounts.quota import redis_store
from accounts.quota.limits import DAY, SECOND
from accounts.usage import write_behind
from accounts.usage.write_behind import UsageRecorder
from petstore.observability.metrics import FOREIGN_REPLIES
from tests.conftest import Api
from tests.support.quota import ADDRESS, NOON, Sender, day, fallback_store, wait_for_redis
from tests.support.servers import RedisServer, redis_server
from tests.support.tcp_proxy import tcp_proxy


@pytest.fixture
def temporary_redis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    """A Redis that the test may stop, with a short probe interval."""
    monkeypatch.setattr("accounts.quota.fallback.PROBE_SECONDS", 0.01)
    with redis_server(tmp_path) as server:
        yield server


# --- The day -------------------------------------------------------------------------------------


@pytest.mark.parametrize("blip", ["kill", "pause"])
def test_day_is_counted_exactly_across_redis_blips(
    temporary_redis: RedisServer, db: None, blip: str
) -> None:
    store = fallback_store(temporary_redis.url)
    acme = Sender(per_minute=1_000, per_day=100)
    admitted = 0
    for _ in range(3):
        admitted += acme.admitted(15)
        with outage(temporary_redis, blip):
            admitted += acme.admitted(15)
            assert store.active_backend == "database"
        wait_for_redis(store)
    admitted += acme.admitted(60)
    # A paused server later counts the request that timed out, which the database has counted as well.
    counted_twice = 3 if blip == "pause" else 0
    assert 100 - counted_twice <= admitted <= 100


@contextmanager
def outage(server: RedisServer, blip: str) -> Iterator[None]:
    """Kill or pause the server, then bring it back."""
    if blip == "kill":
        server.stop()
        yield
        server.start()
    else:
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            server.process.send_signal(signal.SIGCONT)


def test_day_is_counted_exactly_if_only_one_worker_sees_a_blip(
    temporary_redis: RedisServer, db: None
) -> None:
    with tcp_proxy(temporary_redis.port) as proxy:
        isolated, other = fallback_store(proxy.url), fallback_store(temporary_redis.url)
        acme = Sender(isolated, per_minute=1_000, per_day=100)
        admitted = acme.admitted(20)
        target, proxy.target = proxy.target, None
        proxy.cut()
        admitted += acme.admitted(30)  # In the database.
        assert isolated.active_backend == "database"
        acme.store = other
        admitted += acme.admitted(20)  # In Redis.
        write_behind.recorder.write()
        proxy.target = target
        wait_for_redis(isolated)
        acme.store = isolated
        admitted += acme.admitted(10)
        acme.store = other
        admitted += acme.admitted(60)
    assert admitted == 100


def test_worker_without_a_failure_knows_the_day_count(
    temporary_redis: RedisServer, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker that noticed the failure publishes its count, here with the account's next request."""
    busy, idle = fallback_store(temporary_redis.url), fallback_store(temporary_redis.url)
    acme = Sender(busy, per_minute=1_000, per_day=100)
    admitted = acme.admitted(10)
    acme.store = idle
    admitted += acme.admitted(10)
    acme.store = busy
    with outage(temporary_redis, "pause"):
        admitted += acme.admitted(40)
    wait_for_redis(busy)
    admitted += acme.admitted(1)
    acme.store = idle
    admitted += acme.admitted(100)
    assert 99 <= admitted <= 100  # One was counted twice: see above.


def test_day_is_counted_exactly_after_an_unnoticed_loss_of_counters(
    temporary_redis: RedisServer, db: None
) -> None:
    store = fallback_store(temporary_redis.url)
    acme = Sender(per_minute=1_000, per_day=100)
    admitted = acme.admitted(50)
    temporary_redis.client.flushall()  # Like a restart between two requests, or an eviction.
    assert admitted + acme.admitted(60) == 100
    assert store.active_backend == "redis"


def test_request_in_flight_during_failover_is_flushed_at_once(
    temporary_redis: RedisServer, db: None, usage_recorder: UsageRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The regular write comes too late: until then, the database would admit one more request."""
    store = fallback_store(temporary_redis.url)
    acme = Sender(per_minute=1_000, per_day=20)
    admitted = acme.admitted(5)

    def fail_over_and_finish(*reply: Any) -> QuotaResult:
        monkeypatch.setattr(redis_store, "finish_admit", finish_admit)
        temporary_redis.stop()
        assert acme.send().admitted
        assert store.active_backend == "database"
        return finish_admit(*reply)

    monkeypatch.setattr(redis_store, "finish_admit", fail_over_and_finish)
    admitted += 1 + acme.admitted(1)
    assert usage_recorder._wake.is_set()
    usage_recorder.write()  # Like the thread that was woken.
    assert admitted + acme.admitted(30) == 20


def test_requests_of_both_stores_count_once(
    temporary_redis: RedisServer, db: None, usage_recorder: UsageRecorder
) -> None:
    in_redis, in_database = RedisQuotaStore(temporary_redis.url), DatabaseQuotaStore()
    acme = Sender(in_redis, per_minute=1_000, per_day=1_000)
    for number in range(1, 6):
        acme.store = in_redis
        acme.admitted(3)
        usage_recorder.write()
        acme.store = in_database
        assert day(acme.send()).used == 4 * number
        acme.store = in_redis
        in_redis.refresh(acme.keys[0].public_id)
    assert day(acme.send()).used == 21


def test_request_counted_by_the_database_during_recovery_is_published(
    temporary_redis: RedisServer, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = Sender(fallback_store(temporary_redis.url), per_minute=1_000, per_day=1_000)
    refresh = RedisQuotaStore.refresh

    def count_in_database() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(RedisQuotaStore, "admit", Mock(side_effect=RecordEvictedError))
            acme.send()

    def refresh_and_count(redis: RedisQuotaStore, public_id: str) -> None:
        monkeypatch.setattr(RedisQuotaStore, "refresh", refresh)
        refresh(redis, public_id)
        count_in_database()

    count_in_database()
    monkeypatch.setattr(RedisQuotaStore, "refresh", refresh_and_count)
    acme.send()
    assert day(acme.send()).used == 4


class LoggingStore:
    """A store that logs each call."""

    def __init__(self, events: list[str]) -> None:
        self.events = events

    def admit(self, *arguments: Any, **options: Any) -> QuotaResult:
        self.events.append("counted")
        return QuotaResult()

    peek = admit


def test_database_counts_only_after_the_worker_has_flushed(
    monkeypatch: pytest.MonkeyPatch, usage_recorder: UsageRecorder
) -> None:
    events: list[str] = []
    writing, may_finish = threading.Event(), threading.Event()

    def write() -> None:
        writing.set()
        may_finish.wait(30)
        events.append("flushed")

    monkeypatch.setattr(usage_recorder, "write", write)
    monkeypatch.setattr("accounts.quota.fallback.FLUSH_TIMEOUT", 30)
    store = FallbackQuotaStore(RedisQuotaStore("redis://127.0.0.1:1"), LoggingStore(events))
    key = key_format.generate("live", "Account1")
    first, second = (threading.Thread(target=store.admit, args=[key, ADDRESS]) for _ in range(2))
    first.start()
    assert writing.wait(30)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    assert events == []
    may_finish.set()
    for thread in (first, second):
        thread.join(30)
    assert events == ["flushed", "counted", "counted"]


# --- Midnight ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [2, 6, 600])
def test_two_clocks_at_midnight_admit_one_days_limit(store: Any, seconds: int) -> None:
    acme = Sender(per_minute=1_000, per_day=10)
    midnight = NOON - NOON % DAY + DAY
    acme.now = midnight
    admitted = acme.send().admitted + 0
    for number in range(1, 10):  # One clock is past midnight, the other is not.
        acme.now = midnight + number * SECOND - (number % 2) * seconds * SECOND
        admitted += acme.admitted(5)
    assert admitted == 10


# --- Expired and evicted records -----------------------------------------------------------------


def test_key_record_that_expires_between_round_trips_is_read_again(
    temporary_redis: RedisServer, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fallback_store(temporary_redis.url)
    acme = Sender(per_minute=5, per_day=100)
    acme.keys[0].allowed_networks = ["192.0.2.0/24"]
    acme.keys[0].save()
    acme.send()
    expire_records(acme, temporary_redis, monkeypatch, after=[1, 3])
    assert acme.send().admitted
    assert store.active_backend == "redis"


def test_evicted_key_record_falls_back_to_the_database_without_failover(
    temporary_redis: RedisServer, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fallback_store(temporary_redis.url)
    acme = Sender(per_minute=5, per_day=100)
    expire_records(acme, temporary_redis, monkeypatch, after=range(1, 100))
    assert acme.send().admitted
    assert store.active_backend == "redis"
    acme.store = RedisQuotaStore(temporary_redis.url)
    with pytest.raises(RecordEvictedError):
        acme.send()


def expire_records(
    sender: Sender, server: RedisServer, monkeypatch: pytest.MonkeyPatch, after: Any
) -> None:
    """Delete the cached key record after these round trips, counted from 1."""
    run, round_trips = ScriptRunner.run, [0]

    def run_and_expire(
        scripts: ScriptRunner, script: Script, keys: Sequence[str], arguments: Sequence[Any]
    ) -> Any:
        reply = run(scripts, script, keys, arguments)
        round_trips[0] += 1
        if round_trips[0] in after:
            server.client.delete(get_redis_keys(sender.keys[0].public_id)[0])
        return reply

    monkeypatch.setattr(ScriptRunner, "run", run_and_expire)


# --- Foreign replies -----------------------------------------------------------------------------


def count_mismatched_replies() -> float:
    return next(iter(FOREIGN_REPLIES.collect())).samples[0].value


def test_reply_for_another_key_is_rejected_and_closes_the_connection(
    temporary_redis: RedisServer, db: None
) -> None:
    store = RedisQuotaStore(temporary_redis.url)
    acme, other = Sender(per_minute=5, per_day=100), Sender(per_minute=5, per_day=100)
    acme.send()
    connection = store._scripts._client._connection()  # type: ignore[union-attr]
    hashes = get_redis_keys(other.keys[0].public_id)
    connection.send_command(
        "EVALSHA", ADMIT.sha, 3, *hashes, "", "", 0, "", "", ""
    )  # The next request would get this reply.
    before = count_mismatched_replies()
    with pytest.raises(MismatchedReplyError, match=acme.keys[0].public_id):
        store._check_reply(acme.keys[0].public_id, connection.read_response())
    assert count_mismatched_replies() == before + 1
    assert connection._sock is None
    assert acme.send().admitted


def test_reply_for_another_key_is_a_503_that_counts_for_no_account(
    api: Api, monkeypatch: pytest.MonkeyPatch, redis: RedisServer, settings: Any
) -> None:
    settings.ANONYMOUS_PER_MINUTE = 300

    def swap(store: RedisQuotaStore, *arguments: Any, **options: Any) -> Any:
        raise MismatchedReplyError("The reply was for another key.")

    monkeypatch.setattr(RedisQuotaStore, "admit", swap)
    monkeypatch.setattr("accounts.keys.authentication.store", fallback_store(redis.url))
    responses = [api.get("/pets") for _ in range(3)]
    assert [(response.status_code, response.json()["code"]) for response in responses] == [
        (503, "service_unavailable")
    ] * 3
    assert all(int(response.headers["Retry-After"]) >= 1 for response in responses)
    assert {response.headers["X-RateLimit-Remaining"] for response in responses} == {"300"}


# --- Database outages ----------------------------------------------------------------------------


def test_database_outage_counts_for_no_address(
    api: Api, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.ANONYMOUS_PER_MINUTE = 5

    def fail(*arguments: Any, **options: Any) -> Any:
        raise OperationalError("unavailable")

    monkeypatch.setattr("accounts.quota.database_store.key_record.read", fail)
    responses = [api.get("/pets") for _ in range(8)]
    assert {response.status_code for response in responses} == {503}
    assert all(int(response.headers["Retry-After"]) >= 1 for response in responses)
    assert {response.headers["X-RateLimit-Limit"] for response in responses} == {"5"}
    assert {response.headers["X-RateLimit-Remaining"] for response in responses} == {"5"}
    monkeypatch.undo()
    assert api.get("/pets").status_code == 200
