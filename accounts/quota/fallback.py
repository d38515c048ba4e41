"""What happens when Redis fails: the one place where that is decided.

Requests go on, counted by the database, and none fails or waits because of Redis: those that meet the
failure pay for one time-out, then nobody asks Redis until a thread of its own gets an answer again. Each
node of a cluster is away or not by itself, with the accounts that it has. Logged once for each change.

At each change of store an account can be admitted its minute limit once more. The day is carried over: a
process writes what it has counted before it asks the database, and tells Redis what the database has
counted for it before it asks Redis again. docs/operating.md has what can be missed nevertheless.
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
from accounts.quota.redis_store import ForeignReplyError, RedisQuotaStore, RedisUndecidedError
from accounts.usage import write_behind
from petstore.api.client_ip import Address
from petstore.db import replicas
from petstore.event_loop.greenlets import on_loop, wait
from petstore.event_loop.redis_scripts import RedisUnavailableError
from petstore.event_loop.threads import in_thread
from petstore.observability.metrics import STORE_UP

logger = logging.getLogger(__name__)

PROBE_EVERY = 0.5  # Seconds.
WRITE_SECONDS = 1.0  # What a request waits for the write of what its process has counted in Redis.
TOLD_AT_ONCE = 500  # Accounts.


@dataclass(eq=False, slots=True)
class Debt:
    """An account's requests that the database has counted and Redis was not told of: by one of its keys."""

    public_id: str


@dataclass(slots=True)
class Shard:
    """A server, or a node of a cluster, as this process knows it."""

    name: str  # Of a node; '' where there is one server.
    away: bool = False
    # Done when what this process has counted there is in the database.
    written: "Future[None] | None" = None
    knows_writes_from: float = 0.0  # By the monotonic clock: Redis was not told of writes before.

    def __str__(self) -> str:
        return f"Redis ({self.name})" if self.name else "Redis"


class FallbackQuotaStore:
    """Redis while it answers, else the database."""

    def __init__(self, redis: RedisQuotaStore, database: QuotaStore) -> None:
        self._redis = redis
        self._database = database
        self._lock = threading.Lock()
        self._shards: dict[str, Shard] = {}
        self._debts: dict[str, Debt] = {}  # By the account's public id.
        self._closed = threading.Event()

    def close(self) -> None:
        """Look for Redis no more: what is away stays so."""
        self._closed.set()

    @property
    def state(self) -> str:
        """Where requests are counted now: `redis`, or `database` while a part of Redis is away."""
        return "database" if any(shard.away for shard in list(self._shards.values())) else "redis"

    def admit(
        self, key: KeyText, address: Address, now: int | None = None, *, writes: bool = False
    ) -> Admission:
        """Prove the key and count the request: see QuotaStore. Raises ForeignReplyError."""
        counted = self._ask(key, partial(self._redis.admit, key, address, now, writes=writes))
        if counted is not None:
            return counted
        admission = self._database.admit(key, address, now)
        if admission.decision is not None and admission.decision.admitted:
            with self._lock:
                self._debts[key.public_id[:ACCOUNT_ID_LENGTH]] = Debt(key.public_id)
        return admission

    def look(self, key: KeyText, address: Address, now: int | None = None) -> Admission:
        """Prove the key and show what is left: see QuotaStore. Raises ForeignReplyError."""
        seen = self._ask(key, partial(self._redis.look, key, address, now))
        return self._database.look(key, address, now) if seen is None else seen

    def _ask(self, key: KeyText, ask: Callable[[], Admission]) -> Admission | None:
        """Return what Redis says of a key; None where the database has to, which then knows what it can."""
        name = self._redis.shard(key.public_id)
        shard = self._shards.get(name) or self._shards.setdefault(name, Shard(name))
        if not shard.away:
            try:
                if self._debts:
                    self._pay(key.public_id)
                admission = ask()
            except ForeignReplyError:
                raise
            except RedisUndecidedError:
                pass
            except RedisUnavailableError as error:
                self._leave(shard, key.public_id, error)
            else:
                if shard.away:  # It was left meanwhile, and its counts were written without this one.
                    write_behind.recorder.wake()
                return admission if monotonic() > shard.knows_writes_from else forget_writes(admission)
        if shard.written is not None and not shard.written.done():
            wait_for(shard.written, WRITE_SECONDS)
        return None

    def _pay(self, public_id: str) -> None:
        """Tell Redis what the database has counted of this account."""
        account = public_id[:ACCOUNT_ID_LENGTH]
        debt = self._debts.get(account)
        if debt is not None:
            self._redis.refresh(debt.public_id)
            self._forgive(account, debt)

    def _forgive(self, account: str, debt: Debt) -> None:
        with self._lock:
            if self._debts.get(account) is debt:  # No request was counted since.
                del self._debts[account]

    def _leave(self, shard: Shard, public_id: str, error: Exception) -> None:
        with self._lock:
            if shard.away:
                return
            shard.written = Future()
            shard.away = True
            STORE_UP.labels("redis").set(0)
        logger.error("%s fails, so the database counts requests: %s", shard, error)
        try:
            with suppress(Error):
                in_thread(write_behind.recorder.write)
        finally:
            shard.written.set_result(None)
            arguments = (shard, public_id)
            threading.Thread(target=self._return, args=arguments, name="redis-probe", daemon=True).start()

    def _return(self, shard: Shard, public_id: str) -> None:
        while not self._closed.wait(PROBE_EVERY):
            try:
                self._redis.ping(public_id)
                self._redis.look_again()
                self._pay_all(shard)
            except RedisUnavailableError:
                continue
            except Exception:  # Whatever it is, the way back must stay.
                logger.exception("%s answers, but can't be returned to.", shard)
                continue
            self._come_back(shard)
            return

    def _come_back(self, shard: Shard) -> None:
        shard.knows_writes_from = monotonic() + replicas.hold() / SECOND
        with self._lock:
            shard.away = False
            if self.state == "redis":
                STORE_UP.labels("redis").set(1)
        logger.warning("%s answers again and counts requests.", shard)
        try:
            self._pay_all(shard)  # What was counted meanwhile.
        except Exception as error:  # noqa: BLE001  Each account's next request tells of it.
            logger.warning("%s could not be told what was counted: %s", shard, error)

    def _pay_all(self, back: Shard) -> None:
        """Tell Redis what the database has counted, for the accounts of this node and of those at work."""
        away = {shard.name for shard in list(self._shards.values()) if shard.away and shard is not back}
        owed = [
            (account, debt)
            for account, debt in list(self._debts.items())
            if self._redis.shard(debt.public_id) not in away
        ]
        try:
            for start in range(0, len(owed), TOLD_AT_ONCE):
                self._pay_some(owed[start : start + TOLD_AT_ONCE])
        except Error as error:  # Each account is told of with its next request.
            logger.warning("What the database has counted could not be read: %s", error)
        finally:
            connection.close()

    def _pay_some(self, owed: list[tuple[str, Debt]]) -> None:
        rows = key_record.QUERY.filter(public_id__in=[debt.public_id for _, debt in owed])
        found = {row["public_id"]: key_record.from_row(row) for row in rows}
        self._redis.publish_all(found.values())
        for account, debt in owed:
            if debt.public_id in found:
                self._forgive(account, debt)


def wait_for(written: "Future[None]", seconds: float) -> None:
    """Wait until it is done, but not for longer."""
    if on_loop():
        wait(asyncio.wait([asyncio.wrap_future(written)], timeout=seconds))
    else:
        with suppress(TimeoutError):
            written.result(seconds)


def forget_writes(admission: Admission) -> Admission:
    """Return the admission of an account that may have written just now."""
    if admission.caller is None:
        return admission
    return admission._replace(caller=admission.caller._replace(since_write=0))
