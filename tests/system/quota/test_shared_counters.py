"""Counters that all machines share (petstore.cache.redis.RedisCounters)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from petstore.cache.redis import RedisCounters, get_redis_counters
from petstore.event_loop.threads import run_in_thread
from tests.support.event_loop import serve
from tests.support.servers import RedisServer

MakeCounters = Callable[[str, str], RedisCounters]


@pytest.fixture
def make_machine(tmp_path: Path) -> MakeCounters:
    """Return a function that creates the counters of a machine with this name and Redis URL."""
    return lambda name, url: RedisCounters(str(tmp_path / name), {"OPTIONS": {"redis": url}})


def test_machines_count_together(redis: RedisServer, make_machine: MakeCounters) -> None:
    redis.client.flushall()
    machines = [make_machine(name, redis.url) for name in "ab"]
    assert [machine.add("visits", 1, 60) for machine in machines] == [True, False]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: machines[number % 2].incr("visits"), range(200)))
    assert sorted(results) == list(range(2, 202))
    assert machines[0].get("visits") == 201


def test_missing_counter_is_a_value_error(redis: RedisServer, make_machine: MakeCounters) -> None:
    redis.client.flushall()
    with pytest.raises(ValueError, match="nothing"):
        make_machine("a", redis.url).incr("nothing")


def test_machine_counts_locally_while_redis_is_unavailable(
    make_machine: MakeCounters, caplog: pytest.LogCaptureFixture
) -> None:
    machine = make_machine("a", "redis://127.0.0.1:1")
    assert machine.add("visits", 1, 60)
    assert [machine.incr("visits") for _ in range(3)] == [2, 3, 4]
    assert machine.delete("visits")
    assert machine.get("visits", "none") == "none"
    assert len(caplog.records) == 1


@pytest.mark.parametrize("start", ["add", "set"])
@pytest.mark.parametrize("seconds", [0, -1])
def test_expired_counter_starts_from_zero(
    redis: RedisServer, make_machine: MakeCounters, start: str, seconds: int
) -> None:
    machine = make_machine("a", redis.url)
    machine.delete("visits")
    getattr(machine, start)("visits", 5, seconds)
    assert machine.get("visits", "none") == "none"
    assert not machine.delete("visits")


def test_counter_expires_in_redis_as_set(redis: RedisServer, make_machine: MakeCounters) -> None:
    machine = make_machine("a", redis.url)
    machine.set("minute", 5, 60)
    machine.set("ever", 5, None)
    name = machine.make_key("minute").encode()
    assert 59_000 < redis.client.pttl(name) <= 60_000
    assert redis.client.pttl(machine.make_key("ever")) == -1


def test_requests_on_the_event_loop_count_without_a_thread(
    redis: RedisServer, make_machine: MakeCounters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise AssertionError("The call used a thread.")

    redis.client.flushall()
    machine = make_machine("a", redis.url)
    monkeypatch.setattr("petstore.event_loop.redis_scripts.run_in_thread", fail)
    assert serve(lambda: machine.add("visits", 1, 60)) == [True]
    assert sorted(serve(*[lambda: machine.incr("visits")] * 50)) == list(range(2, 52))


def test_requests_on_the_event_loop_count_while_redis_is_unavailable(make_machine: MakeCounters) -> None:
    machine = make_machine("a", "redis://127.0.0.1:1")
    assert serve(lambda: machine.add("visits", 1, 60)) == [True]
    assert sorted(serve(*[lambda: machine.incr("visits")] * 10)) == list(range(2, 12))


def test_every_thread_and_request_has_the_same_counters(tmp_path: Path) -> None:
    params = {"OPTIONS": {"redis": "redis://127.0.0.1:1"}}

    def get_counters() -> RedisCounters:
        return get_redis_counters(str(tmp_path), params)

    instances = serve(get_counters, get_counters, lambda: run_in_thread(get_counters))
    assert instances == [get_counters()] * 3
