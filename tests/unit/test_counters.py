"""The counters of anonymous requests, which the processes of one machine share."""

import multiprocessing
import secrets
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest

from petstore.api import local_counters as local
from petstore.api.local_counters import NEIGHBORS, LocalCounters

WORKERS = 3
INCREMENTS = 10_000  # Of each worker, so that all of them run at the same time.
NOW, WINDOW = 1_900_000_000_000_000, 60_000_000  # Microseconds.


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "counters"


@pytest.fixture
def counters(file: Path) -> LocalCounters:
    return LocalCounters(file, "secret", WINDOW)


def count(counters: LocalCounters, name: str = "client", times: int = 1, now: int = NOW) -> int:
    """Count some times, and return the last count."""
    return [counters.count(name, now)[0] for _ in range(times)][-1]


def count_in_process(file: Path) -> list[int]:
    """Count when the processes of all workers have started, and return each count."""
    counters = LocalCounters(file, "secret", WINDOW)
    counters.count("started", NOW)
    while counters.count("started", NOW, 0)[0] < WORKERS:
        pass
    return [counters.count("client", NOW)[0] for _ in range(INCREMENTS)]


def test_processes_count_exactly_together(file: Path) -> None:
    fresh = multiprocessing.get_context("spawn")  # A fork of a process with threads may hang.
    with ProcessPoolExecutor(WORKERS, mp_context=fresh) as pool:
        results = list(pool.map(count_in_process, [file] * WORKERS))
    assert sorted(chain.from_iterable(results)) == list(range(1, WORKERS * INCREMENTS + 1))
    for counts in results:  # They really raced.
        assert any(after - before > 1 for before, after in pairwise(counts))


@pytest.fixture
def switching_often() -> Iterator[None]:
    """Let threads take turns within a count."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_threads_count_exactly_together(counters: LocalCounters, switching_often: None) -> None:
    with ThreadPoolExecutor(WORKERS) as pool:
        results = list(pool.map(lambda _: counters.count("client", NOW)[0], range(INCREMENTS)))
    assert sorted(results) == list(range(1, INCREMENTS + 1))


def test_window_starts_with_the_first_count_and_ends_after_its_length(counters: LocalCounters) -> None:
    assert counters.count("client", NOW - 1, 0) == (0, NOW - 1 + WINDOW)  # Reading changes nothing.
    assert counters.count("client", NOW) == (1, NOW + WINDOW)
    assert counters.count("client", NOW + 1, 0) == (1, NOW + WINDOW)
    assert counters.count("client", NOW + WINDOW - 1) == (2, NOW + WINDOW)
    assert counters.count("client", NOW + WINDOW) == (1, NOW + 2 * WINDOW)


def test_clock_set_back_shortens_a_window_unless_readings_only_cross(counters: LocalCounters) -> None:
    count(counters, times=5, now=NOW + 10 * WINDOW)
    assert counters.count("client", NOW) == (1, NOW + WINDOW)
    assert counters.count("client", NOW - 5) == (2, NOW + WINDOW)


def test_names_and_secrets_count_separately(counters: LocalCounters, file: Path) -> None:
    """So clients can't predict whose bucket they share."""
    assert (count(counters, "one", 3), count(counters, "other", 2), count(counters, "one")) == (3, 2, 4)
    assert count(LocalCounters(file, "another secret", WINDOW), "one") == 1
    assert count(LocalCounters(file, "secret", WINDOW), "one") == 5


def test_client_over_its_limit_stays_there_through_a_flood_from_random_addresses(
    counters: LocalCounters, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "BUCKETS", 16)
    clients = [f"198.51.100.{number}/32" for number in range(16)]
    for client in clients:
        count(counters, client, 301)
    size = file.stat().st_size
    for _ in range(5_000):
        count(counters, secrets.token_hex(8))
    assert [count(counters, client) for client in clients] == [302] * len(clients)
    assert file.stat().st_size == size == 16 * NEIGHBORS * local.COUNTER.size


def test_client_reaches_its_limit_during_a_flood(counters: LocalCounters, monkeypatch: Any) -> None:
    monkeypatch.setattr(local, "BUCKETS", 16)
    for _ in range(301):  # Its bucket gets a new address with every second of its requests.
        for _ in range(8):
            count(counters, secrets.token_hex(8))
        reached = count(counters)
    assert reached >= 290


def test_expired_counters_are_replaced_first(counters: LocalCounters, monkeypatch: Any) -> None:
    monkeypatch.setattr(local, "BUCKETS", 1)
    for number in range(NEIGHBORS - 1):
        count(counters, f"expired {number}", 301)
    later = NOW + WINDOW
    count(counters, now=later)
    for number in range(NEIGHBORS - 1):
        count(counters, f"new {number}", now=later)
    assert count(counters, now=later) == 2


def test_process_counts_by_itself_without_a_writable_folder(tmp_path: Path, caplog: Any) -> None:
    (tmp_path / "file").touch()
    counters = LocalCounters(tmp_path / "file" / "counters", "secret", WINDOW)
    assert count(counters, times=3) == 3
    assert len(caplog.records) == 1
