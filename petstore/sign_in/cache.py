"""The cache of the one-time codes that have been used, in the database."""

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.db import DatabaseCache

MIN_TIMEOUT = 120  # Seconds. A code is valid for three steps of 30 s (MFA_TOTP_TOLERANCE).


class SharedCache(DatabaseCache):
    """A cache that all processes share, in the database.

    django-allauth forgets a used code after one step, although with a tolerance it stays valid for longer.
    So entries live for at least MIN_TIMEOUT.
    """

    def get_backend_timeout(self, timeout: float | None = DEFAULT_TIMEOUT) -> float | None:
        is_short = timeout is not DEFAULT_TIMEOUT and timeout is not None and timeout < MIN_TIMEOUT
        return super().get_backend_timeout(MIN_TIMEOUT if is_short else timeout)
