"""Processes that call the quota store from many threads concurrently.

    python -m tests.support.hammer PROCESSES THREADS

Each line on standard input is a key, a time in microseconds since the epoch for the store's clock, and the
number of requests that each thread of each process sends. The response is a line with the number admitted.
The processes are forks of one that has imported the service.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Barrier

import django
from django.db import OperationalError

FORK = get_context("fork")


def main(processes: int, threads: int) -> None:
    from accounts.quota import store  # noqa: F401  Loaded once for all.

    connections = []
    for _ in range(processes):
        connection, child_end = FORK.Pipe()
        FORK.Process(target=hammer, args=[child_end, threads], daemon=True).start()
        connections.append(connection)
    for line in sys.stdin:
        for connection in connections:
            connection.send(line.split())
        sys.stdout.write(f"{sum(connection.recv() for connection in connections)}\n")
        sys.stdout.flush()


def hammer(connection: Connection, threads: int) -> None:
    """Send requests for each line that arrives, and report the number admitted."""
    from accounts.quota import store
    from tests.support.quota import ADDRESS, parse

    barrier = Barrier(threads)

    def admit(text: str, now: int) -> bool:
        try:
            _, decision = store.admit(parse(text), ADDRESS, now)
        except OperationalError:  # 503: on a busy machine, others held the lock for too long.
            return False
        return decision.admitted

    def send(line: tuple[str, str, str]) -> int:
        text, now, requests = line
        barrier.wait()
        return sum(admit(text, int(now)) for _ in range(int(requests)))

    with ThreadPoolExecutor(threads) as pool:
        while True:
            connection.send(sum(pool.map(send, [connection.recv()] * threads)))


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
    django.setup()
    main(*map(int, sys.argv[1:]))
