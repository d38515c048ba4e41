"""Caches in the database: the one-time codes that have been used, and the counters of attempts."""

import time
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.core.cache.backends.db import DatabaseCache
from django.db import connection, transaction

MIN_TIMEOUT = 120  # Seconds. A code is valid for three steps of 30 s (MFA_TOTP_TOLERANCE).

SET = """
INSERT INTO sign_in_attemptcounter (name, value, expires) VALUES (%s, %s, %s)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, expires = excluded.expires
"""
ADD = SET + "WHERE sign_in_attemptcounter.expires <= %s RETURNING value"
INCREMENT = (
    "UPDATE sign_in_attemptcounter SET value = value + %s WHERE name = %s AND expires > %s RETURNING value"
)
GET = "SELECT value FROM sign_in_attemptcounter WHERE name = %s AND expires > %s"


class SharedCache(DatabaseCache):
    """A cache that all processes share, in the database.

    django-allauth forgets a used code after one step, although with a tolerance it stays valid for longer.
    So entries live for at least MIN_TIMEOUT.
    """

    def get_backend_timeout(self, timeout: float | None = DEFAULT_TIMEOUT) -> float | None:
        is_short = timeout is not DEFAULT_TIMEOUT and timeout is not None and timeout < MIN_TIMEOUT
        return super().get_backend_timeout(MIN_TIMEOUT if is_short else timeout)


class CounterCache(BaseCache):
    """Counters for django-ratelimit that all machines share. Each count is one atomic statement.

    Django's DatabaseCache increments in two statements, and extends the timeout. `add` and `incr` raise
    RuntimeError in a transaction, because its rollback would undo the count. While the database is
    unavailable, they raise OperationalError: signing in needs it, too.
    """

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)

    def add(
        self, key: str, value: int, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        name, expires = self.make_key(key, version), self.get_backend_timeout(timeout)
        with transaction.atomic(durable=True), connection.cursor() as cursor:
            cursor.execute(ADD, (name, value, expires, time.time()))
            return cursor.fetchone() is not None

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        with transaction.atomic(durable=True), connection.cursor() as cursor:
            cursor.execute(INCREMENT, (delta, self.make_key(key, version), time.time()))
            row = cursor.fetchone()
        if row is None:  # Like Django's caches.
            raise ValueError(f"Counter {key!r} not found.")
        return int(row[0])

    def set(
        self, key: str, value: int, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None
    ) -> None:
        with connection.cursor() as cursor:
            cursor.execute(SET, (self.make_key(key, version), value, self.get_backend_timeout(timeout)))

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(GET, (self.make_key(key, version), time.time()))
            row = cursor.fetchone()
        return row[0] if row else default
