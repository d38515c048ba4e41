"""Password hashing with bounded concurrency.

Hashing is the most expensive work that anonymous clients can trigger.
"""

from threading import Lock

from django.contrib.auth.hashers import PBKDF2PasswordHasher

QUEUE_SECONDS = 5

hashing_lock = Lock()


class HashingBusyError(Exception):
    """A password could not be hashed within QUEUE_SECONDS; the client gets 503."""


class BoundedPBKDF2PasswordHasher(PBKDF2PasswordHasher):
    """PBKDF2 that computes one hash at a time per process. Raises HashingBusyError after QUEUE_SECONDS."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        if not hashing_lock.acquire(timeout=QUEUE_SECONDS):
            raise HashingBusyError
        try:
            return super().encode(password, salt, iterations)
        finally:
            hashing_lock.release()
