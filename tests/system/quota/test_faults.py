"""Failures of a quota store: see accounts/quota/fallback.py."""

import logging
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from accounts.quota.redis_store import RedisQuotaStore, get_redis_keys
from petstore.event_loop.redis_client import RedisClient
from petstore.event_loop.redis_scripts import make_script

from accounts.keys.identity import KeyRejectionReason
from accounts.models import ApiKey
from accounts.quota.limits import DAY, MINUTE
from accounts.usage.write_behind import UsageRecorder
from tests.support.live import Service, live_service
from tests.support.quota import Sender, fallback_store, minute
from tests.support.servers import RedisServer, redis_server, wait_until
from tests.support.thorough import times

PAUSE = times(0, 20) / 1000  # Seconds between a sender's requests; none in CI, to keep the service busy.


@contextmanager
def fake_server(reply: bytes) -> Iterator[tuple[str, list[socket.socket]]]:
    """Yield the URL of a server that is not Redis, and its connections. It sends this reply, or nothing."""
    connections: list[socket.socket] = []

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connections.append(connection)
            if reply:
                connection.sendall(reply)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=[listener], daemon=True)
        thread.start()
        try:
            yield f"redis://127.0.0.1:{listener.getsockname()[1]}", connections
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in connections:
                connection.close()


def test_dead_redis_costs_one_attempt(db: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    acme = Sender(fallback_store("redis://127.0.0.1:1"), per_minute=5, per_day=100)
    assert acme.admitted(8) == 5
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize(
    "reply", [b"", b"+OK\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"$-1\r\n" * 50, b"\xff" * 99]
)
def test_unresponsive_or_invalid_redis_rejects_no_request_and_is_tried_once(db: None, reply: bytes) -> None:
    with fake_server(reply) as (url, connections):
        acme = Sender(fallback_store(url), per_minute=50, per_day=100)
        assert acme.admitted(60) == 50
        # One attempt by a request, and those of the probe.
        assert len(connections) < 10


def test_requests_return_to_redis_after_recovery(
    db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr("accounts.quota.fallback.PROBE_SECONDS", 0.01)
    with redis_server(tmp_path) as server:
        store = fallback_store(server.url)
        acme = Sender(per_minute=100, per_day=1_000)
        acme.send()
        server.stop()
        acme.send()
        assert store.active_backend == "database"
        server.start()
        wait_until(lambda: store.active_backend == "redis")
        assert acme.send().admitted
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_flushed_scripts_are_loaded_again(store: Any, redis: RedisServer) -> None:
    acme = Sender(per_minute=5, per_day=100)
    acme.send()
    redis.client.script_flush()
    assert minute(acme.send()).used == 2


def test_deleted_key_works_until_its_record_expires(
    redis: RedisServer, db: None, usage_recorder: UsageRecorder
) -> None:
    acme = Sender(RedisQuotaStore(redis.url), per_minute=5, per_day=100)
    acme.send()
    key = acme.keys[0]
    ApiKey.objects.filter(pk=key.pk)._raw_delete("default")
    usage_recorder.write()  # The usage of a deleted key is dropped, and fails no write.
    ttl = redis.client.pttl(get_redis_keys(key.public_id)[0])
    assert 0 < ttl <= 60_000
    redis.client.delete(get_redis_keys(key.public_id)[0])
    assert acme.admit().rejection is KeyRejectionReason.UNKNOWN


def test_redis_stores_under_1_kib_for_a_key_and_expires_it(redis: RedisServer, db: None) -> None:
    redis.client.flushall()
    acme = Sender(RedisQuotaStore(redis.url), per_minute=5, per_day=100)
    acme.admitted(9)
    hashes = get_redis_keys(acme.keys[0].public_id)
    assert sum(redis.client.memory_usage(name) or 0 for name in hashes) < 1_024
    until_midnight = (DAY - acme.now % DAY + 2 * MINUTE) // 1_000
    ttls = [int(str(redis.client.pttl(name))) for name in hashes]
    assert all(0 < ttl <= limit for ttl, limit in zip(ttls, (60_000, until_midnight, 120_000), strict=True))


def test_cluster_client_closes_all_its_connections(tmp_path: Path) -> None:
    with redis_server(tmp_path, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000") as server:
        server.client.cluster("ADDSLOTSRANGE", 0, 16_383)
        wait_until(lambda: server.client.cluster("info")["cluster_state"] == "ok")
        client = RedisClient(server.url, 5)
        assert client.is_cluster
        client.run(make_script("return 1"), ["name"], [])
        client.close()
        wait_until(lambda: len(server.client.client_list()) == 1)  # This client.


# --- On the production server


@pytest.fixture(scope="module")
def temporary_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="module")
def service_on_redis(
    temporary_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    with live_service(folder, workers=2, REDIS_URL=temporary_redis.url) as service:
        yield service


def is_counting_in(service: Service, where: str) -> Callable[[], bool]:
    """Return a check that every worker counts there. Each request reaches only one worker."""
    return lambda: {httpx.get(f"{service.url}/readyz").json()["quota"] for _ in range(10)} == {where}


def read_metric(service: Service, name: str) -> float:
    """Return a value of /metrics, which any worker reports for all workers."""
    page = httpx.get(f"{service.url}/metrics").text
    match = re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
    assert match is not None, page
    return float(match[1])


def test_no_request_fails_while_redis_is_killed_and_comes_back(
    service_on_redis: Service, temporary_redis: RedisServer
) -> None:
    service = service_on_redis
    statuses: Counter[int] = Counter()
    done = threading.Event()

    key = service.issue_high_limit_key("Steady")

    def send() -> None:
        with service.client(key) as client:
            while not done.is_set():
                statuses[client.get("/pets?limit=1").status_code] += 1
                done.wait(PAUSE)

    with ThreadPoolExecutor(8) as pool:
        senders = [pool.submit(send) for _ in range(8)]
        try:
            for _ in range(3):
                wait_until(is_counting_in(service, "redis"))
                assert read_metric(service, 'petstore_quota_store_up{store="redis"}') == 1
                temporary_redis.stop()
                wait_until(is_counting_in(service, "database"))
                assert read_metric(service, 'petstore_quota_store_up{store="redis"}') == 0
                temporary_redis.start()
            wait_until(is_counting_in(service, "redis"))
        finally:
            done.set()
        for sender in senders:
            sender.result()
    assert statuses.keys() == {200}
    assert statuses.total() > 100
    for text in ("Falling back to the database", "Redis is available again"):
        wait_until(lambda text=text: text in service.log())  # type: ignore[misc]


def test_usage_is_in_the_database_after_a_stop(service_on_redis: Service) -> None:
    service = service_on_redis
    issued = service.issue("Counted", "free")
    with service.client(issued["key"]) as client:
        codes = Counter(client.get("/pets?limit=1").status_code for _ in range(70))
    assert codes == {200: 60, 429: 10}
    rejected = 'petstore_quota_decisions_total{counted_for="account",outcome="rate_limit_exceeded"}'
    wait_until(lambda: read_metric(service, rejected) == 10)  # Workers update metrics with a delay.
    service.stop()
    script = (
        "from accounts.models import DailyUsage\n"
        f"usage = DailyUsage.objects.get(key__public_id='{issued['id']}')\n"
        "print(usage.admitted, usage.rejected)"
    )
    assert service.manage("shell", "-v", "0", "-c", script).split() == ["60", "10"]
