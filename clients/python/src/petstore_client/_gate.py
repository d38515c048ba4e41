"""The wait that all clients of a process share for each API key.

A 429 closes the gate of its key and origin. Until it opens, no thread sends a request with that key, so
the process counts as one waiter, and the service does not ban the key.
"""

import hashlib
import os
import random
import threading
import time

from petstore_client.errors import ApiError, RateLimitError

MAX_JITTER = 0.5  # Seconds after the end of a wait, so that processes do not all start at once.
MAX_WAITS = 3  # For one attempt to send, which others may overtake each time that the gate opens.


class Gate:
    """Delays requests while it is closed, and limits how many are in flight."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._in_flight = 0
        self._opens_at = 0.0  # By time.monotonic().
        self._due_at = 0.0  # The same without jitter.
        self._closed_by: ApiError | None = None
        self._closures = 0  # Since the start, each until the gate opened again.

    def enter(self, max_in_flight: int, max_wait: float) -> None:
        """Wait until a request may be sent. Call `leave` after its response.

        Raises RateLimitError at once if the gate stays closed for more than `max_wait` seconds.
        """
        waited_for: set[int] = set()
        with self._changed:
            while True:
                now = time.monotonic()
                if now >= self._opens_at:
                    if self._in_flight < max_in_flight:
                        self._in_flight += 1
                        return
                    self._changed.wait()
                    continue
                waited_for.add(self._closures)
                if self._due_at - now > max_wait or len(waited_for) > MAX_WAITS:
                    raise self._build_error(self._due_at - now)
                self._changed.wait(self._opens_at - now)

    def leave(self, error: ApiError | None = None) -> None:
        """End a request. The Retry-After of an error closes the gate, before others may enter."""
        with self._changed:
            self._in_flight -= 1
            if error is not None and error.retry_after is not None:
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
        return RateLimitError(
            error.status,
            error.code,
            error.message,
            request_id=error.request_id,
            retry_after=max(seconds, 0),
            quota=error.quota,
        )


_gates: dict[tuple[str, bytes, str], Gate] = {}
_lock = threading.Lock()


def get_gate(origin: str, key: str, bucket: str) -> Gate:
    """Return the process's gate. Operations of different buckets have separate limits."""
    digest = hashlib.sha256(key.encode()).digest()  # Dumps of the process show no other copy of the key.
    with _lock:
        return _gates.setdefault((origin, digest, bucket), Gate())


def reset_locks() -> None:
    """Replace locks that other threads held during a fork. Waits remain."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    for gate in _gates.values():
        gate._changed, gate._in_flight = threading.Condition(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=reset_locks)
