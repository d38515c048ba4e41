"""The quota store that is in use: Redis where REDIS_URL names one, else the database."""

import logging

from django.conf import settings

from accounts.quota.admission import QuotaStore
from accounts.quota.database_store import DatabaseQuotaStore
from accounts.quota.fallback import FallbackQuotaStore
from accounts.quota.redis_store import RedisQuotaStore
from petstore.event_loop.redis_scripts import RedisUnavailableError

logger = logging.getLogger(__name__)

database = DatabaseQuotaStore()
redis = RedisQuotaStore(settings.REDIS_URL) if settings.REDIS_URL else None
store: QuotaStore = FallbackQuotaStore(redis, database) if redis else database


def note_write(public_id: str) -> None:
    """Note that the key's account may have written just now; if Redis fails, the next requests notice."""
    if redis is not None:
        try:
            redis.note_write(public_id)
        except RedisUnavailableError as error:
            logger.warning("Redis could not be told of a write that took long: %s", error)


def redis_is_away() -> bool:
    """Tell whether this process has found Redis, or a node of it, away."""
    return isinstance(store, FallbackQuotaStore) and store.state == "database"


def state() -> str:
    """Return where requests are counted: `redis`, or `database`."""
    return store.state if isinstance(store, FallbackQuotaStore) else "database"
