"""The counters of one machine are exact in several processes, too: see tests/unit/test_counters.py."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.unit.test_counters import TIMES, WORKERS, count_together


def test_no_count_is_lost_or_given_twice(tmp_path: Path) -> None:
    fresh = multiprocessing.get_context("spawn")  # A fork of a process with threads may hang.
    reached = count_together(ProcessPoolExecutor(3, mp_context=fresh), tmp_path)
    assert reached == list(range(1, WORKERS * TIMES + 1))
