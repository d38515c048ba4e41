"""The counters shared by the processes of one machine."""

import sqlite3
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest

from petstore.cache.local import CLEANUP_INTERVAL, LocalCounters

EXPIRED = -1  # Seconds.
WORKERS = 8
INCREMENTS = 50


def count_concurrently(pool: Executor, folder: Path) -> list[int]:
    """Count in every worker of the pool, and return all results in order."""
    with pool:
        return sorted(chain.from_iterable(pool.map(count, [str(folder)] * WORKERS)))


@pytest.fixture
def counters(tmp_path: Path) -> LocalCounters:
    return LocalCounters(str(tmp_path), {})


def count_rows(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "counters.sqlite3")) as connection:
        return int(connection.execute("SELECT count(*) FROM counter").fetchone()[0])


def count(folder: str) -> list[int]:
    """Start the counter or increment it, like a request, and return each result."""
    counters = LocalCounters(folder, {})
    return [1 if counters.add("requests", 1, 60) else counters.incr("requests") for _ in range(INCREMENTS)]


def test_concurrent_increments_are_exact(tmp_path: Path) -> None:
    results = count_concurrently(ThreadPoolExecutor(WORKERS), tmp_path)
    assert results == list(range(1, WORKERS * INCREMENTS + 1))


def test_concurrent_first_use_creates_the_file_once(tmp_path: Path) -> None:
    barrier = threading.Barrier(WORKERS)

    def start(folder: Path) -> bool:
        counters = LocalCounters(str(folder), {})
        barrier.wait()
        return counters.add("requests", 1, 60)

    with ThreadPoolExecutor(WORKERS) as workers:
        for round_ in range(30):
            assert sum(workers.map(start, [tmp_path / str(round_)] * WORKERS)) == 1


def test_connection_is_closed_when_its_thread_ends(counters: LocalCounters, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as worker:
        assert worker.submit(counters.add, "requests", 1, 60).result()
    # SQLite deletes the write-ahead log with the last connection.
    assert [file.name for file in tmp_path.iterdir()] == ["counters.sqlite3"]


def test_connection_is_closed_with_its_counters(tmp_path: Path) -> None:
    assert LocalCounters(str(tmp_path), {}).add("requests", 1, 60)
    assert [file.name for file in tmp_path.iterdir()] == ["counters.sqlite3"]


def test_counters_are_thread_safe(counters: LocalCounters) -> None:
    counters.add("requests", 0, 60)
    with ThreadPoolExecutor(WORKERS) as workers:
        list(workers.map(lambda _: counters.incr("requests"), range(WORKERS * INCREMENTS)))
    assert counters.get("requests") == WORKERS * INCREMENTS


def test_counter_continues_from_the_value_that_was_set(counters: LocalCounters) -> None:
    assert counters.add("requests", 5, None)
    assert not counters.add("requests", 9, 60)
    assert counters.incr("requests", 3) == 8
    assert counters.decr("requests", 2) == 6
    counters.set("requests", 9, 60)
    assert counters.get("requests") == 9


def test_counters_are_independent(counters: LocalCounters) -> None:
    counters.add("one", 1, 60)
    counters.add("other", 10, 60)
    counters.add("one", 100, 60, version=2)
    counters.incr("one")
    assert counters.get_many(["one", "other"]) == {"one": 2, "other": 10}
    assert counters.delete("one")
    assert (counters.get("one"), counters.get("other"), counters.get("one", version=2)) == (None, 10, 100)
    counters.clear()
    assert counters.get("other") is None


@pytest.mark.parametrize("seconds", [0, EXPIRED])
def test_expired_counter_starts_from_zero(counters: LocalCounters, seconds: int) -> None:
    counters.set("requests", 5, seconds)
    assert counters.get("requests", "none") == "none"
    assert not counters.delete("requests")
    with pytest.raises(ValueError, match="requests"):
        counters.incr("requests")
    assert counters.add("requests", 1, 60)
    assert counters.get("requests") == 1


def test_cleanup_removes_only_expired_counters(counters: LocalCounters, tmp_path: Path) -> None:
    counters.add("runs", 1, 60)
    for number in range(3 * CLEANUP_INTERVAL):
        counters.add(f"expired {number}", 1, EXPIRED)
    assert count_rows(tmp_path) <= CLEANUP_INTERVAL
    assert counters.get("runs") == 1


def test_counters_survive_deletion_of_their_file(counters: LocalCounters, tmp_path: Path) -> None:
    counters.add("requests", 1, 60)
    for file in tmp_path.iterdir():
        file.unlink()
    assert counters.incr("requests") == 2
    assert LocalCounters(str(tmp_path), {}).add("requests", 1, 60)


def test_unwritable_folder_raises_operational_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    counters = LocalCounters(str(tmp_path / "file" / "folder"), {})
    with pytest.raises(sqlite3.Error, match="counters"):
        counters.get("requests")
