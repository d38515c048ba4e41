import os
import random
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

RETRYABLE = {408, 429, 500, 502, 503, 504}
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


def send_once(client: httpx.Client, gate: Gate, url: str, body: Any) -> httpx.Response:
    """Retry a POST until it gets a response. The Idempotency-Key keeps it from being carried out twice."""
    headers = {"Idempotency-Key": str(uuid.uuid4())}  # All attempts have the same key.
    for attempt in range(5):
        gate.wait()
        try:
            response = client.post(url, json=body, headers=headers)
        except httpx.TransportError:  # Without a response, it may have been carried out.
            time.sleep(2**attempt)
            continue
        in_use = response.status_code == 409 and response.json()["code"] == "idempotency_key_in_use"
        if response.status_code not in RETRYABLE and not in_use:
            return response
        gate.close(max(int(response.headers.get("Retry-After", 1)), 2**attempt))
    gate.wait()
    return client.post(url, json=body, headers=headers)


gate = Gate()  # Shared by all threads.
with httpx.Client(headers={"Authorization": f"Bearer {os.environ['PETSTORE_KEY']}"}) as client:
    pets = client.get("{{ base_url }}/pets", params={"status": "available", "limit": 1})
    if pets.is_error:
        raise SystemExit(pets.text)
    if not pets.json():
        raise SystemExit("There is no pet to order.")
    response = send_once(client, gate, "{{ base_url }}/store/orders", {"petId": pets.json()[0]["id"]})
if response.is_error:
    raise SystemExit(response.text)
Path("order.json").write_text(response.text)
print(response.json())
