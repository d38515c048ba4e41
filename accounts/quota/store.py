"""The configured quota store: Redis if REDIS_URL is set, else the database."""

import logging
from contextlib import suppress

from django.conf import settings

from accounts.models import Account
from accounts.quota.database_store import DatabaseQuotaStore, read_windows
from accounts.quota.fallback import FallbackQuotaStore
from accounts.quota.limits import Window
from accounts.quota.redis_store import RedisQuotaStore
from accounts.quota.store_protocol import QuotaStore
from petstore.event_loop.redis_scripts import RedisUnavailableError

logger = logging.getLogger(__name__)

database = DatabaseQuotaStore()
redis = RedisQuotaStore(settings.REDIS_URL) if settings.REDIS_URL else None
store: QuotaStore = FallbackQuotaStore(redis, database) if redis else database


def record_write(public_id: str) -> None:
    """Record the end of a long write in Redis, if it is used; log a failure."""
    if redis is not None:
        try:
            redis.record_write(public_id)
        except RedisUnavailableError as error:
            logger.warning("The end of a long write could not be recorded in Redis: %s", error)


def check_redis() -> str:
    """Return `ok` if Redis responds and this process counts in it, else `unreachable`."""
    with suppress(RedisUnavailableError):
        if redis is not None and not is_redis_unavailable():
            redis.ping()
            return "ok"
    return "unreachable"


def is_redis_unavailable() -> bool:
    """Return whether this process considers Redis, or one of its nodes, unavailable."""
    return isinstance(store, FallbackQuotaStore) and store.active_backend == "database"


def read_account_windows(account: Account) -> tuple[Window, Window]:
    """Read the windows that GET /v1/account shows, without a key."""
    with suppress(RedisUnavailableError):
        if redis is not None and not is_redis_unavailable():
            return redis.read_windows(account)
    return read_windows(account)


def get_active_backend() -> str:
    """Return the backend in use: `redis`, or `database` without Redis or while a node is unavailable."""
    return store.active_backend if isinstance(store, FallbackQuotaStore) else "database"
