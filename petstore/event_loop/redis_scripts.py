"""Lua scripts in Redis: on the loop through a shared connection, in threads through redis-py."""

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
from petstore.event_loop.threads import in_thread

if TYPE_CHECKING:
    from petstore.event_loop.redis_client import RedisClient

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

TIMEOUT = 0.5  # Seconds for a reply, after which the database counts.
CLUSTER_WARNING = (
    "REDIS_URL names a cluster, which the event loop does not support: each request with a key uses "
    "one of %d threads (THREADS)."
)
CLUSTER_ERRORS = ("MOVED", "ASK", "CLUSTERDOWN")
# Errors of a server that became a replica, is a replica without its primary, or is starting. The address
# may lead to another server by now, which only a new connection reaches.
NOT_THE_PRIMARY = ("READONLY", "MASTERDOWN", "LOADING")

OWNER = "petstore:database"  # The key that names the database that this Redis belongs to.
CHECK_EVERY = 2.0  # Seconds. Redis may be claimed or emptied while connections are open.
FOREIGN_MESSAGE = (
    "Redis belongs to another database ({}), not to this one ({}). A copy must not share the Redis of its "
    "original: set REDIS_URL to another, or leave it empty. If this database has replaced the other one, "
    "run manage.py claim_redis."
)


class RedisUnavailableError(Exception):
    """Redis does not respond, or not as expected."""


class ForeignRedisError(RedisUnavailableError):
    """Redis belongs to another database."""


class Script(NamedTuple):
    source: str
    sha: str
    idempotent: bool  # Then it may be retried.


def script(source: str, *, idempotent: bool = False) -> Script:
    sha = hashlib.sha1(source.encode()).hexdigest()  # noqa: S324  As Redis names it.
    return Script(source, sha, idempotent)


CLAIM_OWNER = script(
    "redis.call('SET', KEYS[1], ARGV[1], 'NX') return redis.call('GET', KEYS[1])", idempotent=True
)

Run = Callable[[Script, Sequence[str], Sequence[Any]], Any]


@cache  # Once per process.
def warn_about_cluster() -> None:
    logger.warning(CLUSTER_WARNING, settings.THREADS)


class ScriptRunner:
    """Runs scripts, and loads them where necessary.

    Each new connection checks that Redis belongs to this database, and every few seconds again: a restored
    copy of the database must not change limits of production keys.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._shared: SharedRedisConnection | None = SharedRedisConnection(url, TIMEOUT)
        self._must_reconnect = False  # Before the next script on the loop.
        self._client: RedisClient | None = None
        self._failed_at = float("-inf")  # In a thread, by the monotonic clock.
        self._connecting = threading.Lock()
        self._database = ""  # The name of this database, once known.
        self._checked: RedisConnection | None = None  # The owner was checked on it.
        self._check_at = float("-inf")

    def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Run a script. Raises RedisUnavailableError."""
        shared = self._shared
        if shared is not None and is_on_loop():
            if self._must_reconnect:
                self._must_reconnect = False
                shared.close()
            try:
                connection = shared.get_connection()
                if connection is not self._checked or monotonic() >= self._check_at:
                    self._check(connection.run)
                    self._checked = connection
                return connection.run(script, keys, arguments)
            except hiredis.ReplyError as error:
                if not str(error).startswith(CLUSTER_ERRORS):
                    if any(word in str(error) for word in NOT_THE_PRIMARY):
                        shared.close()
                    raise RedisUnavailableError(str(error)) from error
                shared.close()
                self._shared = None  # A cluster node has rejected the script: nothing was counted.
                warn_about_cluster()
            except ConnectionFailedError as error:
                raise RedisUnavailableError(str(error)) from error
        try:
            return in_thread(self._run_in_thread, monotonic(), script, keys, arguments)
        except OperationalError as error:  # All threads are busy, probably with Redis.
            raise RedisUnavailableError(str(error)) from error

    def run_all(self, script: Script, calls: Sequence[tuple[Sequence[str], Sequence[Any]]]) -> list[Any]:
        """Run a script with each of these keys and arguments, in a thread that may block.

        Raises RedisUnavailableError; some calls may have run by then.
        """
        return self._try(script, lambda client: client.run_all(script, calls))

    def check_owner(self) -> None:
        """Raise ForeignRedisError if Redis belongs to another database; in a thread that may block.

        Raises RedisUnavailableError if Redis fails.
        """
        self._try(CLAIM_OWNER, lambda client: None)

    @property
    def is_cluster(self) -> bool:
        return self._client is not None and self._client.is_cluster

    def node(self, key: str) -> str:
        """Name the cluster node that has this key; '' for a single server."""
        return self._client.node(key) if self._client is not None else ""

    def disconnect(self) -> None:
        """Close the connection that the caller uses, also for those who share it."""
        shared = self._shared or self._client
        if is_on_loop() and shared is not None:
            shared.close()
        elif self._client is not None:
            self._client.disconnect()

    def reconnect(self) -> None:
        """Make the loop open a new connection; any thread may call this.

        The open one may lead to a server that has become a replica while it was idle.
        """
        self._must_reconnect = True

    def close(self) -> None:
        if self._shared is not None:
            self._shared.close()
        if self._client is not None:
            self._client.close()

    def _check(self, run: Run) -> None:
        """Claim Redis for this database if it has no owner. Raises ForeignRedisError."""
        try:
            self._database = self._database or in_thread(get_database_id)
        except Error as error:
            message = f"The database could not be identified: {error}"
            raise RedisUnavailableError(message) from error
        owner = run(CLAIM_OWNER, [OWNER], [self._database])
        if not isinstance(owner, bytes):  # A reply to another command.
            self.disconnect()
            raise RedisUnavailableError(f"Unexpected reply: {owner!r}")
        if owner != self._database.encode():
            raise ForeignRedisError(FOREIGN_MESSAGE.format(owner.decode(errors="replace"), self._database))
        self._check_at = monotonic() + CHECK_EVERY

    def _check_if_due(self, client: "RedisClient") -> None:
        due = self._check_at
        if monotonic() < due:
            return
        # Once checked, a cluster continues while the node that stores the owner is down.
        was_checked = client.is_cluster and due > 0
        if was_checked:
            self._check_at = monotonic() + CHECK_EVERY
        try:
            self._check(client.run)
        except ForeignRedisError:
            self._check_at = due
            raise
        except Exception:
            if not was_checked:
                raise

    def _run_in_thread(
        self, queued_at: float, script: Script, keys: Sequence[str], arguments: Sequence[Any]
    ) -> Any:
        if self._failed_at > queued_at and not self.is_cluster:
            raise RedisUnavailableError("Another request failed while this one was queued.")
        return self._try(script, lambda client: client.run(script, keys, arguments))

    def _try(self, script: Script, call: "Callable[[RedisClient], Result]") -> Result:
        attempts = 2 if script.idempotent else 1
        while True:
            attempts -= 1
            try:
                client = self._client or self._connect()
                self._check_if_due(client)
                return call(client)
            except ForeignRedisError:
                raise
            except Exception as error:  # Garbage makes the client raise anything.
                self._failed_at = monotonic()
                if not attempts:
                    raise RedisUnavailableError(f"{type(error).__name__}: {error}") from error

    def _connect(self) -> "RedisClient":
        from petstore.event_loop.redis_client import (
            RedisClient,  # Uses memory that workers on the loop save.
        )

        with self._connecting:
            if self._client is None:
                self._client = RedisClient(self._url, TIMEOUT, self._check)
                self._must_reconnect = self._client.is_cluster  # The loop then detects the cluster as well.
            return self._client
