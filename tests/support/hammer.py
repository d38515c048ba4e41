"""Processes that call the quota store from many threads concurrently.

    python -m tests.support.hammer KEY PROCESSES THREADS REQUESTS

For each line on standard input, a time in microseconds since the epoch for the store's clock, each thread
of each process sends REQUESTS; the response is a line with the number admitted. The processes are forks of
one that has imported the service.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Barrier

import django
from django.db import OperationalError

SECONDS_TO_BAN = 24  # One batch per second; the first ones may be admitted.
FORK = get_context("fork")


def times_to_ban() -> str:
    """Return lines for standard input that ban a key with a small limit by now (D26)."""
    now = time.time_ns() // 1000
    return "".join(f"{now - second * 1_000_000}\n" for second in range(SECONDS_TO_BAN, 0, -1))


def main(text: str, processes: int, threads: int, requests: int) -> None:
    from accounts.quota import store  # noqa: F401  Loaded once for all.

    connections = []
    for _ in range(processes):
        connection, child_end = FORK.Pipe()
        FORK.Process(target=hammer, args=[child_end, text, threads, requests], daemon=True).start()
        connections.append(connection)
    for line in sys.stdin:
        for connection in connections:
            connection.send(int(line))
        sys.stdout.write(f"{sum(connection.recv() for connection in connections)}\n")
        sys.stdout.flush()


def hammer(connection: Connection, text: str, threads: int, requests: int) -> None:
    """Send requests for each time that arrives, and report the number admitted."""
    from accounts.keys import key_format
    from accounts.quota import store
    from tests.support.quota import ADDRESS

    key = key_format.parse(text)
    assert key is not None
    barrier = Barrier(threads)

    def admit(now: int) -> bool:
        try:
            _, decision = store.admit(key, ADDRESS, now)
        except OperationalError:  # 503: on a busy machine, others held the lock for too long.
            return False
        return decision.admitted

    def send(now: int) -> int:
        barrier.wait()
        return sum(admit(now) for _ in range(requests))

    with ThreadPoolExecutor(threads) as pool:
        while True:
            connection.send(sum(pool.map(send, [connection.recv()] * threads)))


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
    django.setup()
    main(sys.argv[1], *map(int, sys.argv[2:]))
