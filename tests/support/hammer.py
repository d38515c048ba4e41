"""A process that asks the quota store from many threads at once.

    python -m tests.support.hammer KEY THREADS REQUESTS

For each line on standard input, a time in microseconds since the epoch for the store's clock, each thread
sends REQUESTS; the answer is a line with how many were admitted.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import django


def main(text: str, threads: int, requests: int) -> None:
    from accounts import key_text
    from accounts.quota.store import store
    from tests.support.quota import ADDRESS

    key = key_text.split(text)
    assert key is not None
    together = Barrier(threads)

    def admit(now: int) -> bool:
        verdict = store.admit(key, ADDRESS, now).verdict
        return verdict is not None and verdict.admitted

    def send(now: int) -> int:
        together.wait()
        return sum(admit(now) for _ in range(requests))

    with ThreadPoolExecutor(threads) as pool:
        for line in sys.stdin:
            sys.stdout.write(f"{sum(pool.map(send, [int(line)] * threads))}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "petstore.settings")
    django.setup()
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
