"""Runs Lua scripts in Redis: on the loop through a shared connection, in threads through redis-py."""

import hashlib
import logging
import threading
from collections.abc import Callable, Sequence
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import hiredis
from django.conf import settings
from django.db import Error, OperationalError

from petstore.db.identity import get_database_id
from petstore.event_loop.connection import ConnectionFailedError
from petstore.event_loop.greenlets import is_on_loop
from petstore.event_loop.redis_connection import RedisConnection, SharedRedisConnection
from petstore.event_loop.threads import run_in_thread

if TYPE_CHECKING:
    from petstore.event_loop.redis_client import RedisClient

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

TIMEOUT = 0.5  # Seconds to wait for a reply before falling back to the database.
CLUSTER_WARNING = (
    "REDIS_URL names a cluster, which the event loop does not support. Each request with a key therefore "
    "uses one of %d threads (THREADS)."
)
CLUSTER_ERRORS = ("MOVED", "ASK", "CLUSTERDOWN")
# Errors of a server that became a replica, lost its primary, or is starting. Its address may resolve to
# another server by now, so a new connection is needed.
NOT_PRIMARY_ERRORS = ("READONLY", "MASTERDOWN", "LOADING")

OWNER_KEY = "petstore:database"  # This key stores the identifier of the database that owns this Redis.
CHECK_INTERVAL = 2.0  # Seconds. Redis may be claimed or emptied while connections are open.
OWNERSHIP_MESSAGE = (
    "Redis belongs to another database ({}), not to this one ({}). A copy of a database must not share the "
    "Redis of the original. Set REDIS_URL to another Redis, or leave it empty. If this database has "
    "replaced the other one, run manage.py claim_redis."
)


class RedisUnavailableError(Exception):
    """Redis does not respond, or its response is unexpected."""


class RedisOwnershipError(RedisUnavailableError):
    """Redis belongs to another database."""


class Script(NamedTuple):
    source: str
    sha: str
    idempotent: bool  # Idempotent scripts may be retried.


def make_script(source: str, *, idempotent: bool = False) -> Script:
    sha = hashlib.sha1(source.encode()).hexdigest()  # noqa: S324  Redis identifies scripts by SHA-1.
    return Script(source, sha, idempotent)


CLAIM_OWNERSHIP = make_script(
    "redis.call('SET', KEYS[1], ARGV[1], 'NX') return redis.call('GET', KEYS[1])", idempotent=True
)

RunScript = Callable[[Script, Sequence[str], Sequence[Any]], Any]


@cache  # Once per process.
def warn_about_cluster() -> None:
    logger.warning(CLUSTER_WARNING, settings.THREADS)


class ScriptRunner:
    """Runs scripts, loading them where necessary.

    Checks that Redis belongs to this database, on each new connection to a single server and every few
    seconds. A restored copy of the database must not change the limits of production keys.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._shared: SharedRedisConnection | None = SharedRedisConnection(url, TIMEOUT)
        self._must_reconnect = False  # Whether the loop must reconnect before its next script.
        self._client: RedisClient | None = None
        self._failed_at = float("-inf")  # The last failure in a thread, by the monotonic clock.
        self._connect_lock = threading.Lock()
        self._database = ""  # The identifier of this database, once known.
        self._checked_connection: RedisConnection | None = None  # The last one with a checked owner.
        self._next_check_at = float("-inf")

    def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Run a script. Raises RedisUnavailableError."""
        shared = self._shared
        if shared is not None and is_on_loop():
            if self._must_reconnect:
                self._must_reconnect = False
                shared.close()
            try:
                connection = shared.get_connection()
                if connection is not self._checked_connection or monotonic() >= self._next_check_at:
                    self._check_owner(connection.run)
                    self._checked_connection = connection
                return connection.run(script, keys, arguments)
            except hiredis.ReplyError as error:
                if not str(error).startswith(CLUSTER_ERRORS):
                    if any(word in str(error) for word in NOT_PRIMARY_ERRORS):
                        shared.close()
                    raise RedisUnavailableError(str(error)) from error
                shared.close()
                self._shared = None  # A cluster node rejected the script, so nothing was counted.
                warn_about_cluster()
            except ConnectionFailedError as error:
                raise RedisUnavailableError(str(error)) from error
        try:
            return run_in_thread(self._run_in_thread, monotonic(), script, keys, arguments)
        except OperationalError as error:  # All threads are busy, probably waiting for Redis.
            raise RedisUnavailableError(str(error)) from error

    def run_all(self, script: Script, calls: Sequence[tuple[Sequence[str], Sequence[Any]]]) -> list[Any]:
        """Run a script once for each pair of keys and arguments. This blocks the calling thread.

        Raises RedisUnavailableError, possibly after some of the calls have run.
        """
        return self._call(script, lambda client: client.run_all(script, calls))

    def check_owner(self) -> None:
        """Claim Redis if it has no owner. Raises RedisOwnershipError if it belongs to another database.

        This blocks the calling thread, and does nothing within CHECK_INTERVAL of the last check. Raises
        RedisUnavailableError if Redis fails, unless it is a cluster that was checked before.
        """
        self._call(CLAIM_OWNERSHIP, lambda client: None)

    @property
    def is_cluster(self) -> bool:
        return self._client is not None and self._client.is_cluster

    def get_node_name(self, key: str) -> str:
        """Return the name of the cluster node that stores a key; '' or `none` without a cluster."""
        return self._client.get_node_name(key) if self._client is not None else ""

    def disconnect(self) -> None:
        """Close the caller's connection, even if other requests share it."""
        shared = self._shared or self._client
        if is_on_loop() and shared is not None:
            shared.close()
        elif self._client is not None:
            self._client.disconnect()

    def reconnect(self) -> None:
        """Make the loop open a new connection. Any thread may call this.

        While the connection was idle, its server may have become a replica.
        """
        self._must_reconnect = True

    def close(self) -> None:
        if self._shared is not None:
            self._shared.close()
        if self._client is not None:
            self._client.close()

    def _check_owner(self, run: RunScript) -> None:
        """Claim Redis for this database if it has no owner. Raises RedisOwnershipError."""
        try:
            self._database = self._database or run_in_thread(get_database_id)
        except Error as error:
            message = f"The database could not be identified: {error}"
            raise RedisUnavailableError(message) from error
        owner = run(CLAIM_OWNERSHIP, [OWNER_KEY], [self._database])
        if not isinstance(owner, bytes):  # This must be the reply to another command.
            self.disconnect()
            raise RedisUnavailableError(f"Unexpected reply: {owner!r}")
        if owner != self._database.encode():
            raise RedisOwnershipError(
                OWNERSHIP_MESSAGE.format(owner.decode(errors="replace"), self._database)
            )
        self._next_check_at = monotonic() + CHECK_INTERVAL

    def _check_owner_if_due(self, client: "RedisClient") -> None:
        due_at = self._next_check_at
        if monotonic() < due_at:
            return
        # Once checked, a cluster stays in use while the node that stores the owner is down.
        may_fail = client.is_cluster and due_at > 0
        if may_fail:
            self._next_check_at = monotonic() + CHECK_INTERVAL
        try:
            self._check_owner(client.run)
        except RedisOwnershipError:
            self._next_check_at = due_at
            raise
        except Exception:
            if not may_fail:
                raise

    def _run_in_thread(
        self, queued_at: float, script: Script, keys: Sequence[str], arguments: Sequence[Any]
    ) -> Any:
        if self._failed_at > queued_at and not self.is_cluster:
            raise RedisUnavailableError("Another request failed while this one was queued.")
        return self._call(script, lambda client: client.run(script, keys, arguments))

    def _call(self, script: Script, function: "Callable[[RedisClient], Result]") -> Result:
        attempts = 2 if script.idempotent else 1
        while True:
            attempts -= 1
            try:
                client = self._client or self._connect()
                self._check_owner_if_due(client)
                return function(client)
            except RedisOwnershipError:
                raise
            except Exception as error:  # After malformed replies, redis-py may raise any exception.
                self._failed_at = monotonic()
                if not attempts:
                    raise RedisUnavailableError(f"{type(error).__name__}: {error}") from error

    def _connect(self) -> "RedisClient":
        # Imported late to save memory: workers on the loop rarely need redis-py.
        from petstore.event_loop.redis_client import RedisClient

        with self._connect_lock:
            if self._client is None:
                self._client = RedisClient(self._url, TIMEOUT, self._check_owner)
                self._must_reconnect = self._client.is_cluster  # Lets the loop detect the cluster as well.
            return self._client
