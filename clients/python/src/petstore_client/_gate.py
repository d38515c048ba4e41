"""The wait that all clients of a process share for each API key.

A 429 closes the gate of its key and origin. Until it opens, no thread sends a request with that key, so
the process counts as one waiter, and the service does not ban the key.
"""

import hashlib
import os
import random
import threading
import time

from petstore_client.errors import ApiError, PetstoreError, RateLimitError

MAX_JITTER = 0.5  # Seconds after the end of a wait, so that processes do not all start at once.
MAX_WAITS = 3  # For one attempt to send, which others may overtake each time that the gate opens.


class Gate:
    """Delays requests while it is closed, and limits how many are in flight."""

    def __init__(self) -> None:
        self._opens_at = self._due_at = 0.0  # By time.monotonic(), with and without jitter.
        self._closed_by: ApiError | None = None
        self._closures = 0  # Since the start, each until the gate opened again.
        self._changed = threading.Condition()
        self._in_flight = 0

    def enter(self, max_in_flight: int, max_wait: float) -> None:
        """Wait until a request may be sent. Call `leave` after its response.

        Raises RateLimitError at once if the gate stays closed for more than `max_wait` seconds.
        """
        waited_for: set[int] = set()
        with self._changed:
            while True:
                now = time.monotonic()
                if now < self._opens_at:
                    waited_for.add(self._closures)
                    if self._due_at - now > max_wait or len(waited_for) > MAX_WAITS:
                        raise self._build_error(self._due_at - now)
                    self._changed.wait(self._opens_at - now)
                elif self._in_flight < max_in_flight:
                    self._in_flight += 1
                    return
                else:
                    self._changed.wait()

    def leave(self, error: PetstoreError | None = None) -> None:
        """End a request. The Retry-After of an error closes the gate, before others may enter."""
        with self._changed:
            self._in_flight -= 1
            if isinstance(error, ApiError) and error.retry_after is not None:
                now = time.monotonic()
                due_at = now + error.retry_after
                self._closures += now >= self._opens_at
                if due_at > self._due_at:
                    self._due_at, self._closed_by = due_at, error
                    self._opens_at = due_at + random.uniform(0, MAX_JITTER)  # noqa: S311
            self._changed.notify_all()

    def _build_error(self, seconds: float) -> RateLimitError:
        error = self._closed_by
        assert error is not None
        facts = (error.status, error.code, error.message, error.details, error.request_id)
        return RateLimitError(*facts, retry_after=max(seconds, 0), quota=error.quota)


_gates: dict[tuple[int, str, bytes, str], Gate] = {}


def get_gate(origin: str, key: str, bucket: str) -> Gate:
    """Return the process's gate. Operations of different buckets have separate limits."""
    digest = hashlib.sha256(key.encode()).digest()  # Dumps of the process show no other copy of the key.
    name = (os.getpid(), origin, digest, bucket)  # After a fork, another thread may hold the parent's lock.
    return _gates.setdefault(name, Gate())  # Atomic.
