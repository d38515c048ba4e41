"""Lua scripts in Redis, each in one round trip: from the loop by its pipe, from a thread by redis-py."""

import hashlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import hiredis

from petstore.engine.pipe import PipeError
from petstore.engine.redis import RedisPipe
from petstore.engine.waiting import in_thread, on_loop

if TYPE_CHECKING:
    from petstore.engine.redis_client import RedisClient

TIMEOUT = 0.5  # Seconds for an answer; after one such wait the database counts.


class RedisUnavailableError(Exception):
    """Redis does not answer, or not as Redis does."""


class Script(NamedTuple):
    """A script in Lua, and Redis's name for it."""

    source: str
    sha: str


def script(source: str) -> Script:
    """Return a script with its name."""
    return Script(source, hashlib.sha1(source.encode()).hexdigest())  # noqa: S324  As Redis names it.


class Scripts:
    """Runs scripts; loads those that the server does not know (any more)."""

    def __init__(self, url: str) -> None:
        self._url = url
        # The pipe speaks to one server, in the clear; redis-py also to a cluster, and through TLS.
        self._pipe = None if url.startswith("rediss:") else RedisPipe(url, TIMEOUT)
        self._client: RedisClient | None = None
        self._connecting = threading.Lock()

    def run(self, script: Script, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Return the script's reply; `names`: of what it reads or changes. Raises RedisUnavailableError."""
        if self._pipe is not None and on_loop():
            try:
                return self._run_in_pipe(self._pipe, script, names, arguments)
            except hiredis.ReplyError as error:
                if not str(error).startswith(("MOVED", "ASK", "CLUSTERDOWN")):
                    raise RedisUnavailableError(str(error)) from error
                self._pipe = None  # One of a cluster, which has refused: nothing was counted.
            except PipeError as error:
                raise RedisUnavailableError(str(error)) from error
        return in_thread(self._run_in_thread, script, names, arguments)

    def close(self) -> None:
        """Close the connections; the next script opens others."""
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

    def _run_in_thread(self, script: Script, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        try:
            client = self._client or self._connect()
            return client.run(script.source, script.sha, names, arguments)
        except Exception as error:  # Garbage breaks the client in many ways.
            raise RedisUnavailableError(f"{type(error).__name__}: {error}") from error

    def _connect(self) -> "RedisClient":
        """Connect, once for all threads: a client that is thrown away would close what it has given."""
        from petstore.engine.redis_client import RedisClient  # 7 MB that a worker on the loop does without.

        with self._connecting:
            if self._client is None:
                self._client = RedisClient(self._url, TIMEOUT)
            return self._client
