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
from django.db import OperationalError

from petstore.loop.connection import PipeError
from petstore.loop.redis import RedisPipe
from petstore.loop.threads import in_thread
from petstore.loop.waiting import on_loop

if TYPE_CHECKING:
    from petstore.loop.redis_client import RedisClient

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

TIMEOUT = 0.5  # Seconds for an answer; after one such wait the database counts.
TLS = "rediss:"
IN_THREADS = (
    "REDIS_URL names a %s, which the event loop can't ask itself: each request with a key takes one of %d "
    "threads (THREADS) to ask it."
)
OF_A_CLUSTER = ("MOVED", "ASK", "CLUSTERDOWN")
# A server that has become a replica, or is one without its primary, or is just starting: behind the same
# address another may stand by now, which only a new connection finds.
NOT_THE_PRIMARY = ("READONLY", "MASTERDOWN", "LOADING")


class RedisUnavailableError(Exception):
    """Redis does not answer, or not as Redis does."""


class Script(NamedTuple):
    """A script in Lua, and Redis's name for it."""

    source: str
    sha: str
    repeats: bool  # Whether running it twice is as good as once.


def script(source: str, *, repeats: bool = False) -> Script:
    sha = hashlib.sha1(source.encode()).hexdigest()  # noqa: S324  As Redis names it.
    return Script(source, sha, repeats)


@cache  # One line of a process, however many ask Redis.
def warn_of_threads(kind: str) -> None:
    logger.warning(IN_THREADS, kind, settings.THREADS)


def warn_of_tls() -> None:
    """Tell, when a worker starts, if its loop will ask through threads; of a cluster it learns later."""
    if settings.SERVE_MODE == "loop" and settings.REDIS_URL.startswith(TLS):
        warn_of_threads("server with TLS")


class Scripts:
    """Runs scripts; loads those that the server does not know (any more)."""

    def __init__(self, url: str) -> None:
        self._url = url
        # The pipe speaks to one server, in the clear; redis-py also to a cluster, and through TLS.
        self._pipe = None if url.startswith(TLS) else RedisPipe(url, TIMEOUT)
        self._renews = False  # The next script on the loop opens a connection of its own time.
        self._client: RedisClient | None = None
        self._failed_at = float("-inf")  # When it last failed a thread, by the monotonic clock.
        self._connecting = threading.Lock()

    def run(self, script: Script, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Return the script's reply; `names`: of what it reads or changes. Raises RedisUnavailableError."""
        pipe = self._pipe
        if pipe is not None and on_loop():
            if self._renews:
                self._renews = False
                pipe.close()
            try:
                return self._run_in_pipe(pipe, script, names, arguments)
            except hiredis.ReplyError as error:
                if not str(error).startswith(OF_A_CLUSTER):
                    if any(word in str(error) for word in NOT_THE_PRIMARY):
                        pipe.close()
                    raise RedisUnavailableError(str(error)) from error
                pipe.close()
                self._pipe = None  # One of a cluster, which has refused: nothing was counted.
                warn_of_threads("cluster")
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
        return self._try(script, lambda client: client.run_all(script.source, script.sha, calls))

    @property
    def is_cluster(self) -> bool:
        """Tell whether there are nodes, as far as is known."""
        return self._client is not None and self._client.is_cluster

    def node(self, name: str) -> str:
        """Return the node of a cluster that has this name; '' where there is one server."""
        return self._client.node(name) if self._client is not None else ""

    def drop(self) -> None:
        """Close the connection that this caller uses; where it is shared, all of them."""
        pipe = self._pipe
        if pipe is not None and on_loop():
            pipe.close()
        elif self._client is not None and on_loop():
            self._client.close()
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

    def _run_in_pipe(
        self, pipe: RedisPipe, script: Script, names: Sequence[str], arguments: Sequence[Any]
    ) -> Any:
        try:
            return pipe.call("EVALSHA", script.sha, len(names), *names, *arguments)
        except hiredis.ReplyError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise
            return pipe.call("EVAL", script.source, len(names), *names, *arguments)

    def _run_in_thread(
        self, queued_at: float, script: Script, names: Sequence[str], arguments: Sequence[Any]
    ) -> Any:
        if self._failed_at > queued_at and not self.is_cluster:
            raise RedisUnavailableError("It has failed another since this was to be asked.")
        return self._try(script, lambda client: client.run(script.source, script.sha, names, arguments))

    def _try(self, script: Script, ask: "Callable[[RedisClient], Result]") -> Result:
        """Ask, and once more on a new connection where that does no harm."""
        attempts = 2 if script.repeats else 1
        while True:
            attempts -= 1
            try:
                return ask(self._client or self._connect())
            except Exception as error:  # Garbage breaks the client in many ways.
                self._failed_at = monotonic()
                if not attempts:
                    raise RedisUnavailableError(f"{type(error).__name__}: {error}") from error

    def _connect(self) -> "RedisClient":
        """Connect, once for all threads: a client that is thrown away would close what it has given."""
        from petstore.loop.redis_client import RedisClient  # 7 MB that a worker on the loop does without.

        with self._connecting:
            if self._client is None:
                self._client = RedisClient(self._url, TIMEOUT)
                self._renews = self._client.is_cluster  # The loop's own connection hears of it there.
            return self._client
