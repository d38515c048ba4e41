import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import httpx

PARALLEL = 4  # Concurrent requests.
LONGEST_WAIT = 120  # Seconds. A longer one means: the day's quota is used up, or the key is banned.


class Gate:
    """The wait that all requests of a key share. A Retry-After closes it for all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opens = 0.0

    def close(self, seconds: float) -> None:
        with self._lock:
            self._opens = max(self._opens, time.monotonic() + seconds)

    def wait(self) -> None:
        """Wait until it is open, or give up at once."""
        while (left := self._opens - time.monotonic()) > 0:
            if left > LONGEST_WAIT:
                again = datetime.now(UTC) + timedelta(seconds=left)
                raise SystemExit(f"Retry after {again:%Y-%m-%d %H:%M:%S} UTC.")
            time.sleep(left + random.random())


def send(client: httpx.Client, gate: Gate, url: str) -> httpx.Response:
    """GET. After 429 or 503 wait at least as Retry-After says, longer each time, and retry."""
    for attempt in range(6):
        gate.wait()
        response = client.get(url)
        if response.status_code not in (429, 503):
            break
        gate.close(max(int(response.headers.get("Retry-After", 1)), 2**attempt))
    return response


gate = Gate()  # Shared by all threads.
with (
    httpx.Client(headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"}) as client,
    ThreadPoolExecutor(PARALLEL) as pool,
):
    urls = [f"{{ base_url }}/pets?limit=3&categoryId={category}" for category in range(1, 11)]
    for response in pool.map(lambda url: send(client, gate, url), urls):
        if response.is_error:
            raise SystemExit(response.text)
        print([pet["name"] for pet in response.json()])
