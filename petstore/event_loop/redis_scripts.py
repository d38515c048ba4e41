"""Lua scripts in Redis, each in one round trip: from the loop by its pipe, from a thread by redis-py."""

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

from petstore.db.identity import identity
from petstore.event_loop.connection import PipeError
from petstore.event_loop.greenlets import on_loop
from petstore.event_loop.redis_connection import RedisConnection, RedisPipe
from petstore.event_loop.threads import in_thread

if TYPE_CHECKING:
    from petstore.event_loop.redis_client import RedisClient

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

TIMEOUT = 0.5  # Seconds for an answer; after one such wait the database counts.
IN_THREADS = (
    "REDIS_URL names a cluster, which the event loop can't ask itself: each request with a key takes one "
    "of %d threads (THREADS) to ask it."
)
OF_A_CLUSTER = ("MOVED", "ASK", "CLUSTERDOWN")
# A server that has become a replica, or is one without its primary, or is just starting: behind the same
# address another may stand by now, which only a new connection finds.
NOT_THE_PRIMARY = ("READONLY", "MASTERDOWN", "LOADING")

OWNER = "petstore:database"  # The database whose accounts this Redis counts for.
CHECK_EVERY = 2.0  # Seconds: a Redis may be claimed, or emptied, while connections to it are open.
FOREIGN = (
    "Redis belongs to another database ({}), not to this one ({}). A copy must not share the Redis of its "
    "original: set REDIS_URL to another, or leave it empty. If this database has taken the place of the "
    "other, run manage.py claim_redis."
)


class RedisUnavailableError(Exception):
    """Redis does not answer, or not as Redis does."""


class ForeignRedisError(RedisUnavailableError):
    """Redis belongs to another database."""


class Script(NamedTuple):
    """A script in Lua, and Redis's name for it."""

    source: str
    sha: str
    repeats: bool  # Whether running it twice is as good as once.


def script(source: str, *, repeats: bool = False) -> Script:
    sha = hashlib.sha1(source.encode()).hexdigest()  # noqa: S324  As Redis names it.
    return Script(source, sha, repeats)


KEEP = script("redis.call('SET', KEYS[1], ARGV[1], 'NX') return redis.call('GET', KEYS[1])", repeats=True)

Run = Callable[[Script, Sequence[str], Sequence[Any]], Any]


@cache  # One line of a process, however many ask Redis.
def warn_of_threads() -> None:
    logger.warning(IN_THREADS, settings.THREADS)


class Scripts:
    """Runs scripts; loads those that the server does not know (any more).

    Only on a Redis that belongs to this database, which each new connection checks, and then every few
    seconds: a restored copy would change what the keys of production may do.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        # The pipe speaks to one server; redis-py also to a cluster.
        self._pipe: RedisPipe | None = RedisPipe(url, TIMEOUT)
        self._renews = False  # The next script on the loop opens a connection of its own time.
        self._client: RedisClient | None = None
        self._failed_at = float("-inf")  # When it last failed a thread, by the monotonic clock.
        self._connecting = threading.Lock()
        self._database = ""  # Ours, once it has been asked.
        self._checked: RedisConnection | None = None  # The loop's connection to a Redis of ours.
        self._check_at = float("-inf")

    def run(self, script: Script, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Return the script's reply; `names`: of what it reads or changes. Raises RedisUnavailableError."""
        pipe = self._pipe
        if pipe is not None and on_loop():
            if self._renews:
                self._renews = False
                pipe.close()
            try:
                connection = pipe.connected()
                if connection is not self._checked or monotonic() >= self._check_at:
                    self._check(connection.run)
                    self._checked = connection
                return connection.run(script, names, arguments)
            except hiredis.ReplyError as error:
                if not str(error).startswith(OF_A_CLUSTER):
                    if any(word in str(error) for word in NOT_THE_PRIMARY):
                        pipe.close()
                    raise RedisUnavailableError(str(error)) from error
                pipe.close()
                self._pipe = None  # One of a cluster, which has refused: nothing was counted.
                warn_of_threads()
            except PipeError as error:
                raise RedisUnavailableError(str(error)) from error
        try:
            return in_thread(self._run_in_thread, monotonic(), script, names, arguments)
        except OperationalError as error:  # Every thread waits, most likely for Redis.
            raise RedisUnavailableError(str(error)) from error

    def run_all(self, script: Script, calls: Sequence[tuple[Sequence[str], Sequence[Any]]]) -> list[Any]:
        """Return the replies of a script that is run with each of these names and arguments.

        In a thread that may block. Raises RedisUnavailableError; then some of them may have run.
        """
        return self._try(script, lambda client: client.run_all(script, calls))

    def check_owner(self) -> None:
        """Raise ForeignRedisError if Redis belongs to another database, RedisUnavailableError if it fails.

        In a thread that may block.
        """
        self._try(KEEP, lambda client: None)

    @property
    def is_cluster(self) -> bool:
        """Tell whether there are nodes, as far as is known."""
        return self._client is not None and self._client.is_cluster

    def node(self, name: str) -> str:
        """Return the node of a cluster that has this name; '' where there is one server."""
        return self._client.node(name) if self._client is not None else ""

    def drop(self) -> None:
        """Close the connection that this caller uses; where it is shared, all of them."""
        shared = self._pipe or self._client
        if on_loop() and shared is not None:
            shared.close()
        elif self._client is not None:
            self._client.drop()

    def renew(self) -> None:
        """Have the loop use a new connection from now on: any thread may call this.

        The one that there is may lead to a server that has become a replica meanwhile, and nobody asked.
        """
        self._renews = True

    def close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
        if self._client is not None:
            self._client.close()

    def _check(self, run: Run) -> None:
        """Make a Redis that belongs to no database ours. Raises ForeignRedisError."""
        try:
            self._database = self._database or in_thread(identity)
        except Error as error:
            message = f"The database does not say which one it is: {error}"
            raise RedisUnavailableError(message) from error
        owner = run(KEEP, [OWNER], [self._database])
        if not isinstance(owner, bytes):  # A reply to another question.
            self.drop()
            raise RedisUnavailableError(f"It answered {owner!r}.")
        if owner != self._database.encode():
            raise ForeignRedisError(FOREIGN.format(owner.decode(errors="replace"), self._database))
        self._check_at = monotonic() + CHECK_EVERY

    def _check_if_due(self, client: "RedisClient") -> None:
        due = self._check_at
        if monotonic() < due:
            return
        # A cluster continues without the node that has the owner, once that was asked, and meanwhile.
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
        self, queued_at: float, script: Script, names: Sequence[str], arguments: Sequence[Any]
    ) -> Any:
        if self._failed_at > queued_at and not self.is_cluster:
            raise RedisUnavailableError("It has failed another since this was to be asked.")
        return self._try(script, lambda client: client.run(script, names, arguments))

    def _try(self, script: Script, ask: "Callable[[RedisClient], Result]") -> Result:
        """Ask, and once more on a new connection where that does no harm."""
        attempts = 2 if script.repeats else 1
        while True:
            attempts -= 1
            try:
                client = self._client or self._connect()
                self._check_if_due(client)
                return ask(client)
            except ForeignRedisError:
                raise
            except Exception as error:  # Garbage breaks the client in many ways.
                self._failed_at = monotonic()
                if not attempts:
                    raise RedisUnavailableError(f"{type(error).__name__}: {error}") from error

    def _connect(self) -> "RedisClient":
        """Connect, once for all threads: a client that is thrown away would close what it has given."""
        from petstore.event_loop.redis_client import (
            RedisClient,  # 7 MB that a worker on the loop does without.
        )

        with self._connecting:
            if self._client is None:
                self._client = RedisClient(self._url, TIMEOUT, self._check)
                self._renews = self._client.is_cluster  # The loop's own connection hears of it there.
            return self._client
