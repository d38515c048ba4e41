"""The real PostgreSQL that the tests use."""

from __future__ import annotations

import os
import random
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

START_SECONDS = 60  # Timeout of a server's start, while other tests keep every core busy.
LOCAL_POSTGRESQL = (
    "postgresql://postgres@127.0.0.1:5432/postgres",
    "postgresql://root@127.0.0.1:5432/postgres",
    "postgresql://petstore:petstore@127.0.0.1:5432/petstore",  # compose.yaml
)


def postgresql() -> str | None:
    """The URL of a PostgreSQL where databases can be created: DATABASE_URL's or a local one's."""
    named = os.environ.get("DATABASE_URL", "")
    for url in [named] if named.startswith("postgres") else LOCAL_POSTGRESQL:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            continue
        return url
    return None


def wait_until(attempt: Callable[[], object], seconds: float = START_SECONDS) -> None:
    """Retry until there is no exception, and the result is not False. For starts of servers only."""
    end = time.monotonic() + seconds
    while True:
        try:
            assert attempt() is not False
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)  # Polling takes CPU from the starting server.
        else:
            return


def is_running(pid: str) -> bool:
    """Return whether a process exists and is not a zombie; see proc_pid_stat(5)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def memory_mib(pids: list[int]) -> float:
    """The memory of processes; shared pages count once (PSS)."""
    rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() for pid in pids]
    return (
        sum(int(line.split()[1]) for rollup in rollups for line in rollup if line.startswith("Pss:")) / 1024
    )


RANDOM = random.SystemRandom()  # Hypothesis seeds the other alike in every process.
reserved: list[socket.socket] = []  # Each bound to an abstract name, until this process exits.


def free_port() -> int:
    """A port on which nothing listens, and which no other process of tests has got.

    Below the system's ephemeral ports.
    """
    while True:
        port = RANDOM.randint(10_000, 22_000)
        try:
            if sys.platform == "linux":
                reserved.append(socket.socket(socket.AF_UNIX))
                reserved[-1].bind(f"\0petstore-tests-{port}")
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", port))
        except OSError:
            continue
        return port
