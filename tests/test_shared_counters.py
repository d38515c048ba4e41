"""Counters over all machines: petstore.counters.SharedCounters."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from petstore.counters import SharedCounters
from tests.servers import RedisServer


def counters(folder: Path, url: str) -> SharedCounters:
    """The counters of one machine."""
    return SharedCounters(str(folder), {"OPTIONS": {"redis": url}})


def test_machines_count_together(redis: RedisServer, tmp_path: Path) -> None:
    redis.client.flushall()
    machines = [counters(tmp_path / name, redis.url) for name in "ab"]
    assert [machine.add("visits", 1, 60) for machine in machines] == [True, False]
    with ThreadPoolExecutor(8) as pool:
        counted = list(pool.map(lambda number: machines[number % 2].incr("visits"), range(200)))
    assert sorted(counted) == list(range(2, 202))
    assert machines[0].get("visits") == 201


def test_counter_that_does_not_run_is_a_value_error(redis: RedisServer, tmp_path: Path) -> None:
    redis.client.flushall()
    with pytest.raises(ValueError, match="nothing"):
        counters(tmp_path, redis.url).incr("nothing")


def test_machine_counts_by_itself_while_redis_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    machine = counters(tmp_path, "redis://127.0.0.1:1")
    assert machine.add("visits", 1, 60)
    assert [machine.incr("visits") for _ in range(3)] == [2, 3, 4]
    assert machine.delete("visits")
    assert machine.get("visits", "none") == "none"
    assert len(caplog.records) == 1
