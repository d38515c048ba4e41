"""What happens when Redis fails: the one place where that is decided.

Requests go on, counted by the database, and none fails or waits because of Redis: those that meet the
failure pay for one time-out, then nobody asks Redis until a thread of its own has found it well again. At
each change of store an account can be admitted its minute limit once more; what the day has used is carried
over, but for the last seconds before a crash (see usage.py). Logged once for each change.
"""

import logging
import threading
from time import monotonic

from accounts.keys import KeyText
from accounts.quota.admission import Admission, QuotaStore
from accounts.quota.redis import RedisQuotaStore
from accounts.quota.verdict import SECOND
from petstore.addresses import Address
from petstore.databases import replicas
from petstore.engine.scripts import RedisUnavailableError
from petstore.metrics import STORE_UP

logger = logging.getLogger(__name__)

PROBE_EVERY = 0.5  # Seconds.


class FallbackQuotaStore:
    """Redis while it answers, else the database."""

    def __init__(self, redis: RedisQuotaStore, database: QuotaStore) -> None:
        self._redis = redis
        self._database = database
        self._lock = threading.Lock()
        self._away = False
        self._knows_writes_from = 0.0  # By the monotonic clock: Redis was not told of writes before.

    @property
    def state(self) -> str:
        """Where requests are counted now: `redis`, or `database` while Redis is away."""
        return "database" if self._away else "redis"

    def admit(
        self, key: KeyText, address: Address, now: int | None = None, *, writes: bool = False
    ) -> Admission:
        """Prove the key and count the request: see QuotaStore."""
        if not self._away:
            try:
                admission = self._redis.admit(key, address, now, writes=writes)
            except RedisUnavailableError as error:
                self._leave(error)
            else:
                return admission if monotonic() > self._knows_writes_from else forget_writes(admission)
        return self._database.admit(key, address, now)

    def _leave(self, error: Exception) -> None:
        with self._lock:
            if self._away:
                return
            self._away = True
            STORE_UP.labels("redis").set(0)
        logger.error("Redis fails, so the database counts requests: %s", error)
        threading.Thread(target=self._return, name="redis-probe", daemon=True).start()

    def _return(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(PROBE_EVERY)
            try:
                self._redis.ping()
            except RedisUnavailableError:
                continue
            self._knows_writes_from = monotonic() + replicas.hold() / SECOND
            self._away = False
            STORE_UP.labels("redis").set(1)
            logger.warning("Redis answers again and counts requests.")
            return


def forget_writes(admission: Admission) -> Admission:
    """Return the admission of an account that may have written just now."""
    if admission.caller is None:
        return admission
    return admission._replace(caller=admission.caller._replace(since_write=0))
