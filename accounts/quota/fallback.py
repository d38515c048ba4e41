"""The quota store that falls back to the database while Redis is unavailable.

Only the requests that detect the failure wait for a timeout. After that, requests are counted in the
database while a thread probes Redis until it responds. In a cluster, failover is per node and affects only
the accounts stored on it.

Each switchover may let an account use its full minute limit again; its daily count carries over. Before a
process uses the database, it flushes its own counts. Before it uses Redis again, it publishes what the
database counted during the outage. docs/operating.md lists the requests that may still go uncounted.
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

from accounts.keys.key_format import ACCOUNT_ID_LENGTH, ParsedKey
from accounts.quota import key_record
from accounts.quota.limits import SECOND
from accounts.quota.redis_store import MismatchedReplyError, RecordEvictedError, RedisQuotaStore
from accounts.quota.store_protocol import QuotaResult, QuotaStore
from accounts.usage import write_behind
from petstore.api.client_ip import Address
from petstore.db import replicas
from petstore.event_loop.greenlets import is_on_loop, wait
from petstore.event_loop.redis_scripts import RedisUnavailableError
from petstore.event_loop.threads import run_in_thread
from petstore.observability.metrics import STORE_UP

logger = logging.getLogger(__name__)

PROBE_SECONDS = 0.5
FLUSH_TIMEOUT = 1.0  # Maximum seconds that a request waits for its process to flush its counts.
PUBLISH_BATCH_SIZE = 500  # Accounts.


@dataclass(eq=False, slots=True)
class UnpublishedAccount:
    """An account whose counts in the database are not published to Redis yet.

    Instances are compared by identity: a different one means that the database has counted more requests.
    """

    key_public_id: str  # Of any key of the account.


@dataclass(slots=True)
class RedisNode:
    """The state of a Redis server or cluster node in this process."""

    name: str  # '' without a cluster.
    unavailable: bool = False
    flush: "Future[None] | None" = None  # Done once this process has tried to flush its counts.
    pin_to_primary_until: float = 0.0  # Monotonic time. Redis did not record the writes during the outage.

    def __str__(self) -> str:
        return f"Redis ({self.name})" if self.name else "Redis"


class FallbackQuotaStore:
    def __init__(self, redis: RedisQuotaStore, database: QuotaStore) -> None:
        self._redis = redis
        self._database = database
        self._lock = threading.Lock()
        self._nodes: dict[str, RedisNode] = {}
        self._unpublished: dict[str, UnpublishedAccount] = {}  # By the account's public ID.
        self._closed = threading.Event()

    def close(self) -> None:
        """Stop probing."""
        self._closed.set()

    @property
    def active_backend(self) -> str:
        """The backend in use: `redis`, or `database` while any node is unavailable."""
        return "database" if self._find_unavailable() else "redis"

    def _find_unavailable(self) -> set[str]:
        return {node.name for node in list(self._nodes.values()) if node.unavailable}

    def admit(
        self, key: ParsedKey, address: Address, now: int | None = None, *, may_write: bool = False
    ) -> QuotaResult:
        """See QuotaStore. Raises MismatchedReplyError."""
        result = self._try_redis(key, partial(self._redis.admit, key, address, now, may_write=may_write))
        if result is not None:
            return result
        result = self._database.admit(key, address, now)
        if result.decision is not None and result.decision.admitted:
            with self._lock:
                self._unpublished[key.public_id[:ACCOUNT_ID_LENGTH]] = UnpublishedAccount(key.public_id)
        return result

    def peek(self, key: ParsedKey, address: Address, now: int | None = None) -> QuotaResult:
        """See QuotaStore. Raises MismatchedReplyError."""
        result = self._try_redis(key, partial(self._redis.peek, key, address, now))
        return self._database.peek(key, address, now) if result is None else result

    def _try_redis(self, key: ParsedKey, call: Callable[[], QuotaResult]) -> QuotaResult | None:
        """Try Redis. Otherwise wait for a flush in progress, and return None: the database must count."""
        name = self._redis.get_node_name(key.public_id)
        node = self._nodes.get(name) or self._nodes.setdefault(name, RedisNode(name))
        if not node.unavailable:
            try:
                if self._unpublished:
                    self._publish_account(key.public_id)
                result = call()
            except MismatchedReplyError:
                raise
            except RecordEvictedError:
                pass
            except RedisUnavailableError as error:
                self._fail_over(node, key.public_id, error)
            else:
                if node.unavailable:  # A failover has started since; its flush may have missed this count.
                    write_behind.recorder.wake()
                if result.caller is None or monotonic() > node.pin_to_primary_until:
                    return result
                return result._replace(caller=result.caller._replace(time_since_write=0))
        if node.flush is not None and not node.flush.done():
            wait_for_flush(node.flush)
        return None

    def _publish_account(self, public_id: str) -> None:
        unpublished = self._unpublished.get(public_id[:ACCOUNT_ID_LENGTH])
        if unpublished is not None:
            self._redis.refresh(unpublished.key_public_id)
            self._discard(unpublished)

    def _discard(self, unpublished: UnpublishedAccount) -> None:
        account_public_id = unpublished.key_public_id[:ACCOUNT_ID_LENGTH]
        with self._lock:
            if self._unpublished.get(account_public_id) is unpublished:
                del self._unpublished[account_public_id]

    def _fail_over(self, node: RedisNode, public_id: str, error: Exception) -> None:
        with self._lock:
            if node.unavailable:
                return
            node.flush = Future()
            node.unavailable = True
            STORE_UP.labels("redis").set(0)
        logger.error("%s is unavailable (%s). Falling back to the database.", node, error)
        try:
            with suppress(Error):
                run_in_thread(write_behind.recorder.write)
        finally:
            node.flush.set_result(None)
            probe = partial(self._probe, node, public_id)
            threading.Thread(target=probe, name="redis-probe", daemon=True).start()

    def _probe(self, node: RedisNode, public_id: str) -> None:
        while not self._closed.wait(PROBE_SECONDS):
            try:
                self._redis.ping(public_id)
                self._redis.reconnect()
                self._publish_pending(node)
            except RedisUnavailableError:
                continue
            except Exception:
                logger.exception("%s responds, but switching back to it failed. Retrying.", node)
                continue
            self._recover(node)
            return

    def _recover(self, node: RedisNode) -> None:
        node.pin_to_primary_until = monotonic() + replicas.get_pinning_period() / SECOND
        with self._lock:
            node.unavailable = False
            if self.active_backend == "redis":
                STORE_UP.labels("redis").set(1)
        logger.warning("%s is available again. Switched back from the database.", node)
        try:
            self._publish_pending(node)  # The database may have counted more requests since the last call.
        except Exception as error:  # noqa: BLE001  The next request of each account retries it.
            logger.warning("Counts could not be published to %s: %s", node, error)

    def _publish_pending(self, recovering: RedisNode) -> None:
        """Publish all pending counts, except for accounts on other nodes that are still unavailable."""
        unavailable = self._find_unavailable() - {recovering.name}
        pending = [
            unpublished
            for unpublished in list(self._unpublished.values())
            if self._redis.get_node_name(unpublished.key_public_id) not in unavailable
        ]
        try:
            for start in range(0, len(pending), PUBLISH_BATCH_SIZE):
                self._publish_batch(pending[start : start + PUBLISH_BATCH_SIZE])
        except Error as error:  # The next request of each account retries it.
            logger.warning("The counts in the database could not be read: %s", error)
        finally:
            connection.close()

    def _publish_batch(self, pending: list[UnpublishedAccount]) -> None:
        by_public_id = {unpublished.key_public_id: unpublished for unpublished in pending}
        rows = key_record.QUERY.filter(public_id__in=list(by_public_id))
        records = [key_record.from_row(row) for row in rows]
        self._redis.publish_all(records)
        for record in records:
            self._discard(by_public_id[record.public_id])


def wait_for_flush(flush: "Future[None]") -> None:
    if is_on_loop():
        wait(asyncio.wait([asyncio.wrap_future(flush)], timeout=FLUSH_TIMEOUT))
    else:
        with suppress(TimeoutError):
            flush.result(FLUSH_TIMEOUT)
