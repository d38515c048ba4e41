"""Kinds of Redis: a failed-over primary, a cluster, and a server that evicts."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from accounts.quota.redis_store import RedisQuotaStore, get_redis_keys
from petstore.event_loop.redis_scripts import RedisUnavailableError

from tests.support.event_loop import run, run_request
from tests.support.quota import Sender, day, fallback_store, wait_for_redis
from tests.support.servers import RedisServer, redis_server, wait_until
from tests.support.tcp_proxy import tcp_proxy

# --- Failover ------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[RedisServer, RedisServer]]:
    """A primary and its replica."""
    monkeypatch.setattr("accounts.quota.fallback.PROBE_SECONDS", 0.01)
    for name in "ab":
        (tmp_path / name).mkdir()
    with ExitStack() as stack:
        first = stack.enter_context(redis_server(tmp_path / "a"))
        second = stack.enter_context(
            redis_server(tmp_path / "b", "--replicaof", "127.0.0.1", str(first.port))
        )
        wait_until(lambda: second.client.info("replication")["master_link_status"] == "up")
        yield first, second


def swap_roles(first: RedisServer, second: RedisServer) -> None:
    """Swap the roles of primary and replica; connections stay open."""
    wait_until(lambda: get_lag(first) == 0)
    second.client.replicaof("NO", "ONE")
    first.client.replicaof("127.0.0.1", second.port)


def get_lag(primary: RedisServer) -> int:
    """Return the number of bytes that the replica lacks."""
    info = primary.client.info("replication")
    return int(info["master_repl_offset"]) - int(info["slave0"]["offset"])


def test_planned_failover_behind_one_address_is_followed(
    pair: tuple[RedisServer, RedisServer], db: None
) -> None:
    first, second = pair
    with tcp_proxy(first.port) as proxy:
        store = fallback_store(proxy.url)
        acme = Sender(per_minute=1_000, per_day=100)
        acme.send()
        swap_roles(first, second)
        proxy.target = second.port  # Open connections stay with the old primary.
        assert acme.send().admitted
        wait_for_redis(store)
        used = [day(acme.send()).used for _ in range(5)]
        assert store.active_backend == "redis"
        assert used == [3, 4, 5, 6, 7]
        assert int(second.client.hget(get_redis_keys(acme.keys[0].public_id)[1], "day_used") or 0) == 6


def test_planned_failover_behind_one_address_is_followed_on_the_loop(
    pair: tuple[RedisServer, RedisServer], db: None
) -> None:
    first, second = pair
    with tcp_proxy(first.port) as proxy:
        store = RedisQuotaStore(proxy.url)
        acme = Sender(per_minute=1_000, per_day=100)
        acme.send()

        async def main() -> list[Any]:
            before = await run_request(acme.send)
            swap_roles(first, second)
            proxy.target = second.port
            with pytest.raises(RedisUnavailableError, match="READONLY"):
                await run_request(acme.send)
            return [before, await run_request(acme.send)]

        assert [day(decision).used for decision in run(main())] == [2, 3]


# --- A cluster -----------------------------------------------------------------------------------


def test_accounts_on_other_nodes_are_unaffected_by_a_dead_node(
    db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("accounts.quota.fallback.PROBE_SECONDS", 0.01)
    with cluster(tmp_path, 3) as nodes:
        store = fallback_store(nodes[0].url)
        senders: list[Sender] = []
        admitted: list[int] = []
        shards: list[str] = []
        while len(senders) < 12 or len(set(shards)) < len(nodes):  # Accounts have random nodes.
            assert len(senders) < 200
            sender = Sender(per_minute=60, per_day=1_000)
            senders.append(sender)
            admitted.append(sender.admitted(5))
            shards.append(store._redis.get_node_name(sender.keys[0].public_id))
        dead = nodes[2]
        dead.stop()
        for _ in range(3):
            admitted = [
                before + sender.admitted(5) for before, sender in zip(admitted, senders, strict=True)
            ]
        failovers = [
            record for record in caplog.records if "Falling back to the database" in record.message
        ]
        assert len(failovers) == 1
        for number, sender in enumerate(senders):
            counted = admitted[number] + sender.admitted(70)
            assert counted == 60 + 5 * shards[number].endswith(f":{dead.port}")


@contextmanager
def cluster(folder: Path, size: int) -> Iterator[list[RedisServer]]:
    """Yield the nodes of a cluster that keeps working without one of them."""
    options = ("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
    with ExitStack() as stack:
        nodes = []
        for number in range(size):
            node_folder = folder / str(number)
            node_folder.mkdir()
            nodes.append(stack.enter_context(redis_server(node_folder, *options)))
        slots = 16_384 // size + 1
        for number, node in enumerate(nodes):
            node.client.cluster("ADDSLOTSRANGE", number * slots, min((number + 1) * slots, 16_384) - 1)
            node.client.cluster("MEET", "127.0.0.1", nodes[0].port)
        for node in nodes:
            wait_until(partial(check_slots, node, size))
        yield nodes


def check_slots(node: RedisServer, size: int) -> None:
    """Check that a node knows the slots of all nodes."""
    assert node.client.cluster("info")["cluster_state"] == "ok"
    assert len(node.client.execute_command("CLUSTER", "SLOTS")) == size  # type: ignore[no-untyped-call]


# --- Eviction ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "warnings"),
    [("allkeys-lru 64mb", 1), ("allkeys-lru 0", 0), ("noeviction 64mb", 0)],
)
def test_server_that_may_evict_counters_is_logged_once(
    redis: RedisServer, db: None, caplog: pytest.LogCaptureFixture, memory: str, warnings: int
) -> None:
    policy, max_memory = memory.split()
    redis.client.flushall()
    redis.client.config_set("maxmemory-policy", policy)
    redis.client.config_set("maxmemory", max_memory)
    try:
        store = RedisQuotaStore(redis.url)
        for _ in range(2):
            Sender(per_minute=5, per_day=100).send()
    finally:
        redis.client.config_set("maxmemory", "0")
        redis.client.config_set("maxmemory-policy", "noeviction")
    assert [policy in record.message for record in caplog.records] == [True] * warnings
