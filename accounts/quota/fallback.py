"""Falls back to the database while Redis is unavailable.

Only the requests that detect the failure wait for a timeout. From then on the database counts, and a thread
probes Redis until it responds again. Each node of a cluster fails over separately, with its accounts.

Each switch can admit an account's minute limit once more. The day's count carries over: before it uses the
database, a process flushes its own counts; before it uses Redis again, it publishes what the database
counted during the outage. docs/operating.md lists what can still be missed.
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
FLUSH_TIMEOUT = 1.0  # Seconds that a request waits for its process's counts to reach the database.
PUBLISH_BATCH_SIZE = 500  # Accounts.


@dataclass(eq=False, slots=True)
class UnpublishedAccount:
    """An account that the database counted for, not yet published to Redis; named by one of its keys."""

    public_id: str


@dataclass(slots=True)
class Shard:
    """The state of a Redis server or cluster node in this process."""

    name: str  # '' without a cluster.
    unavailable: bool = False
    # Done when this process's counts of the shard are in the database.
    flushed: "Future[None] | None" = None
    writes_known_from: float = 0.0  # Monotonic clock; Redis lacks earlier writes.

    def __str__(self) -> str:
        return f"Redis ({self.name})" if self.name else "Redis"


class FallbackQuotaStore:
    def __init__(self, redis: RedisQuotaStore, database: QuotaStore) -> None:
        self._redis = redis
        self._database = database
        self._lock = threading.Lock()
        self._shards: dict[str, Shard] = {}
        self._unpublished: dict[str, UnpublishedAccount] = {}  # By account public id.
        self._closed = threading.Event()

    def close(self) -> None:
        """Stop probing."""
        self._closed.set()

    @property
    def state(self) -> str:
        """`redis`, or `database` while any shard is unavailable."""
        return "database" if any(shard.unavailable for shard in list(self._shards.values())) else "redis"

    def admit(
        self, key: KeyText, address: Address, now: int | None = None, *, writes: bool = False
    ) -> Admission:
        """See QuotaStore. Raises ForeignReplyError."""
        counted = self._try_redis(key, partial(self._redis.admit, key, address, now, writes=writes))
        if counted is not None:
            return counted
        admission = self._database.admit(key, address, now)
        if admission.decision is not None and admission.decision.admitted:
            with self._lock:
                self._unpublished[key.public_id[:ACCOUNT_ID_LENGTH]] = UnpublishedAccount(key.public_id)
        return admission

    def peek(self, key: KeyText, address: Address, now: int | None = None) -> Admission:
        """See QuotaStore. Raises ForeignReplyError."""
        seen = self._try_redis(key, partial(self._redis.peek, key, address, now))
        return self._database.peek(key, address, now) if seen is None else seen

    def _try_redis(self, key: KeyText, call: Callable[[], Admission]) -> Admission | None:
        """Return None if the database must decide, after this process's flush."""
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
                if shard.unavailable:  # Failed over concurrently; the flush missed this count.
                    write_behind.recorder.wake()
                return (
                    admission if monotonic() > shard.writes_known_from else assume_recent_write(admission)
                )
        if shard.flushed is not None and not shard.flushed.done():
            wait_for(shard.flushed, FLUSH_TIMEOUT)
        return None

    def _publish_account(self, public_id: str) -> None:
        account = public_id[:ACCOUNT_ID_LENGTH]
        unpublished = self._unpublished.get(account)
        if unpublished is not None:
            self._redis.refresh(unpublished.public_id)
            self._discard(account, unpublished)

    def _discard(self, account: str, unpublished: UnpublishedAccount) -> None:
        with self._lock:
            if self._unpublished.get(account) is unpublished:  # Nothing counted since.
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
            arguments = (shard, public_id)
            threading.Thread(target=self._probe, args=arguments, name="redis-probe", daemon=True).start()

    def _probe(self, shard: Shard, public_id: str) -> None:
        while not self._closed.wait(PROBE_SECONDS):
            try:
                self._redis.ping(public_id)
                self._redis.reconnect()
                self._publish_all(shard)
            except RedisUnavailableError:
                continue
            except Exception:  # Keep probing.
                logger.exception("%s responds, but switching back to it failed.", shard)
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
            self._publish_all(shard)  # Counted since the last call.
        except Exception as error:  # noqa: BLE001  Each account's next request publishes it.
            logger.warning("Counts could not be published to %s: %s", shard, error)

    def _publish_all(self, recovered: Shard) -> None:
        """Publish the database's counts for the accounts of this shard and of available ones."""
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
        except Error as error:  # Each account's next request publishes it.
            logger.warning("The counts of the database could not be read: %s", error)
        finally:
            connection.close()

    def _publish_batch(self, pending: list[tuple[str, UnpublishedAccount]]) -> None:
        rows = key_record.QUERY.filter(public_id__in=[unpublished.public_id for _, unpublished in pending])
        found = {row["public_id"]: key_record.from_row(row) for row in rows}
        self._redis.publish_all(list(found.values()))
        for account, unpublished in pending:
            if unpublished.public_id in found:
                self._discard(account, unpublished)


def wait_for(flushed: "Future[None]", seconds: float) -> None:
    if is_on_loop():
        wait(asyncio.wait([asyncio.wrap_future(flushed)], timeout=seconds))
    else:
        with suppress(TimeoutError):
            flushed.result(seconds)


def assume_recent_write(admission: Admission) -> Admission:
    if admission.caller is None:
        return admission
    return admission._replace(caller=admission.caller._replace(time_since_write=0))
