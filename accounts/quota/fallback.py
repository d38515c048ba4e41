"""The quota store that falls back to the database while Redis is unavailable.

Only the requests that detect the failure wait for a timeout. After that, the database counts, and a thread
probes Redis until it responds again. Each node of a cluster fails over separately, with its accounts.

Each switch may admit an account's minute limit once more, but the day's count carries over. Before a
process uses the database, it flushes its own counts. Before it uses Redis again, it publishes what the
database counted during the outage. docs/operating.md lists the requests that may still be missed.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic

from django.db import Error, connection

from accounts.keys.key_format import ACCOUNT_ID_LENGTH, KeyText
from accounts.quota import key_record
from accounts.quota.admission import Admission, QuotaStore
from accounts.quota.limits import SECOND
from accounts.quota.redis_store import ForeignReplyError, RecordEvictedError, RedisQuotaStore
from accounts.usage import write_behind
from petstore.api.client_ip import Address
from petstore.db import replicas
from petstore.event_loop.greenlets import is_on_loop, wait
from petstore.event_loop.redis_scripts import RedisUnavailableError
from petstore.event_loop.threads import in_thread
from petstore.observability.metrics import STORE_UP

logger = logging.getLogger(__name__)

PROBE_SECONDS = 0.5
FLUSH_TIMEOUT = 1.0  # Seconds that a request waits until its process has flushed its counts.
PUBLISH_BATCH_SIZE = 500  # Accounts.


@dataclass(eq=False, slots=True)
class UnpublishedAccount:
    """An account whose counts in the database are not published to Redis yet.

    Instances are compared by identity: a new one means that the database has counted since.
    """

    public_id: str  # One of the account's keys.


@dataclass(slots=True)
class Shard:
    """The state of a Redis server or cluster node in this process."""

    name: str  # '' without a cluster.
    unavailable: bool = False
    flushed: "Future[None] | None" = None  # Done once this process has flushed its counts.
    writes_known_from: float = 0.0  # By the monotonic clock. Redis does not know earlier writes.

    def __str__(self) -> str:
        return f"Redis ({self.name})" if self.name else "Redis"


class FallbackQuotaStore:
    def __init__(self, redis: RedisQuotaStore, database: QuotaStore) -> None:
        self._redis = redis
        self._database = database
        self._lock = threading.Lock()
        self._shards: dict[str, Shard] = {}
        self._unpublished: dict[str, UnpublishedAccount] = {}  # By the account's public ID.
        self._closed = threading.Event()

    def close(self) -> None:
        """Stop probing."""
        self._closed.set()

    @property
    def state(self) -> str:
        """Return `redis`, or `database` while any shard is unavailable."""
        return "database" if any(shard.unavailable for shard in list(self._shards.values())) else "redis"

    def admit(
        self, key: KeyText, address: Address, now: int | None = None, *, writes: bool = False
    ) -> Admission:
        """See QuotaStore. Raises ForeignReplyError."""
        admission = self._try_redis(key, partial(self._redis.admit, key, address, now, writes=writes))
        if admission is not None:
            return admission
        admission = self._database.admit(key, address, now)
        if admission.decision is not None and admission.decision.admitted:
            with self._lock:
                self._unpublished[key.public_id[:ACCOUNT_ID_LENGTH]] = UnpublishedAccount(key.public_id)
        return admission

    def peek(self, key: KeyText, address: Address, now: int | None = None) -> Admission:
        """See QuotaStore. Raises ForeignReplyError."""
        admission = self._try_redis(key, partial(self._redis.peek, key, address, now))
        return self._database.peek(key, address, now) if admission is None else admission

    def _try_redis(self, key: KeyText, call: Callable[[], Admission]) -> Admission | None:
        """Return None if the database must decide; by then, this process has flushed its counts."""
        name = self._redis.get_shard(key.public_id)
        shard = self._shards.get(name) or self._shards.setdefault(name, Shard(name))
        if not shard.unavailable:
            try:
                if self._unpublished:
                    self._publish_account(key.public_id)
                admission = call()
            except ForeignReplyError:
                raise
            except RecordEvictedError:
                pass
            except RedisUnavailableError as error:
                self._fail_over(shard, key.public_id, error)
            else:
                if shard.unavailable:  # A concurrent failover did not flush this count.
                    write_behind.recorder.wake()
                if monotonic() > shard.writes_known_from:
                    return admission
                return assume_recent_write(admission)
        if shard.flushed is not None and not shard.flushed.done():
            wait_for_flush(shard.flushed, FLUSH_TIMEOUT)
        return None

    def _publish_account(self, public_id: str) -> None:
        account = public_id[:ACCOUNT_ID_LENGTH]
        unpublished = self._unpublished.get(account)
        if unpublished is not None:
            self._redis.refresh(unpublished.public_id)
            self._discard(account, unpublished)

    def _discard(self, account: str, unpublished: UnpublishedAccount) -> None:
        with self._lock:
            if self._unpublished.get(account) is unpublished:
                del self._unpublished[account]

    def _fail_over(self, shard: Shard, public_id: str, error: Exception) -> None:
        with self._lock:
            if shard.unavailable:
                return
            shard.flushed = Future()
            shard.unavailable = True
            STORE_UP.labels("redis").set(0)
        logger.error("%s is unavailable; the database counts requests: %s", shard, error)
        try:
            with suppress(Error):
                in_thread(write_behind.recorder.write)
        finally:
            shard.flushed.set_result(None)
            threading.Thread(
                target=self._probe, args=(shard, public_id), name="redis-probe", daemon=True
            ).start()

    def _probe(self, shard: Shard, public_id: str) -> None:
        while not self._closed.wait(PROBE_SECONDS):
            try:
                self._redis.ping(public_id)
                self._redis.reconnect()
                self._publish_all(shard)
            except RedisUnavailableError:
                continue
            except Exception:
                logger.exception("%s responds, but switching back to it failed. Retrying.", shard)
                continue
            self._recover(shard)
            return

    def _recover(self, shard: Shard) -> None:
        shard.writes_known_from = monotonic() + replicas.get_pinning_period() / SECOND
        with self._lock:
            shard.unavailable = False
            if self.state == "redis":
                STORE_UP.labels("redis").set(1)
        logger.warning("%s is available again and counts requests.", shard)
        try:
            self._publish_all(shard)  # The database may have counted since the last call.
        except Exception as error:  # noqa: BLE001  The next request of each account retries it.
            logger.warning("Counts could not be published to %s: %s", shard, error)

    def _publish_all(self, recovered: Shard) -> None:
        """Publish the database's counts of all accounts, except those of other unavailable shards."""
        unavailable = {
            shard.name
            for shard in list(self._shards.values())
            if shard.unavailable and shard is not recovered
        }
        pending = [
            (account, unpublished)
            for account, unpublished in list(self._unpublished.items())
            if self._redis.get_shard(unpublished.public_id) not in unavailable
        ]
        try:
            for start in range(0, len(pending), PUBLISH_BATCH_SIZE):
                self._publish_batch(pending[start : start + PUBLISH_BATCH_SIZE])
        except Error as error:  # The next request of each account retries it.
            logger.warning("The counts in the database could not be read: %s", error)
        finally:
            connection.close()

    def _publish_batch(self, pending: list[tuple[str, UnpublishedAccount]]) -> None:
        rows = key_record.QUERY.filter(public_id__in=[unpublished.public_id for _, unpublished in pending])
        records = {row["public_id"]: key_record.from_row(row) for row in rows}
        self._redis.publish_all(list(records.values()))
        for account, unpublished in pending:
            if unpublished.public_id in records:
                self._discard(account, unpublished)


def wait_for_flush(flushed: "Future[None]", timeout: float) -> None:
    if is_on_loop():
        wait(asyncio.wait([asyncio.wrap_future(flushed)], timeout=timeout))
    else:
        with suppress(TimeoutError):
            flushed.result(timeout)


def assume_recent_write(admission: Admission) -> Admission:
    if admission.caller is None:
        return admission
    return admission._replace(caller=admission.caller._replace(time_since_write=0))
