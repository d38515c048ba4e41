"""The quota store that is in use: Redis where REDIS_URL names one, else the database."""

from django.conf import settings

from accounts.quota import usage
from accounts.quota.admission import QuotaStore
from accounts.quota.database import DatabaseQuotaStore
from accounts.quota.fallback import FallbackQuotaStore
from accounts.quota.redis import RedisQuotaStore
from petstore.metrics import STORE_UP

database = DatabaseQuotaStore()
redis = RedisQuotaStore(settings.REDIS_URL) if settings.REDIS_URL else None
store: QuotaStore = FallbackQuotaStore(redis, database) if redis else database


def start_worker() -> None:
    """Begin what a process that serves does beside its requests."""
    STORE_UP.labels("redis" if redis else "database").set(1)
    usage.recorder.start()


def state() -> str:
    """Return where requests are counted: `redis`, or `database`."""
    return store.state if isinstance(store, FallbackQuotaStore) else "database"
