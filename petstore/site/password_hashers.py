"""Password hashing with a bound: it is the most expensive work that anonymous clients can ask for."""

from threading import Lock

from django.contrib.auth.hashers import PBKDF2PasswordHasher

QUEUE_SECONDS = 5

hashing = Lock()


class HashingBusyError(Exception):
    """No password could be hashed within QUEUE_SECONDS; the client gets 503."""


class BoundedPBKDF2PasswordHasher(PBKDF2PasswordHasher):
    """PBKDF2, one hash at a time in each process; others wait, and raise HashingBusyError in the end."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        if not hashing.acquire(timeout=QUEUE_SECONDS):
            raise HashingBusyError
        try:
            return super().encode(password, salt, iterations)
        finally:
            hashing.release()
