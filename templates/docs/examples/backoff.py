import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import httpx

CONCURRENCY = 4
MAX_WAIT = 120  # Seconds. A longer wait means that the quota of the day is used up or the key is banned.


class Gate:
    """Makes all requests of a key wait after a Retry-After."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opens = 0.0

    def close(self, seconds: float) -> None:
        with self._lock:
            self._opens = max(self._opens, time.monotonic() + seconds)

    def wait(self) -> None:
        """Wait until the gate opens, or give up at once if that takes too long."""
        while (left := self._opens - time.monotonic()) > 0:
            if left > MAX_WAIT:
                again = datetime.now(UTC) + timedelta(seconds=left)
                raise SystemExit(f"Retry after {again:%Y-%m-%d %H:%M:%S} UTC.")
            time.sleep(left + random.random())


def send(client: httpx.Client, gate: Gate, url: str) -> httpx.Response:
    """Send a GET. Retry after 429 and 503, with longer and longer waits of at least Retry-After."""
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
    ThreadPoolExecutor(CONCURRENCY) as pool,
):
    urls = [f"{{ base_url }}/pets?limit=3&categoryId={category}" for category in range(1, 11)]
    for response in pool.map(lambda url: send(client, gate, url), urls):
        if response.is_error:
            raise SystemExit(response.text)
        print([pet["name"] for pet in response.json()])
