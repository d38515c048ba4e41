"""Redis connections of the event loop, which use hiredis to pack commands and parse replies."""

import asyncio
import ssl
from collections.abc import Sequence
from functools import cache
from typing import Any, Self
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import hiredis

from petstore.event_loop.connection import Connection, ConnectionClosedError, ReplyFuture
from petstore.event_loop.shared_connection import SharedConnection

INCOMPLETE = object()


class RedisConnection(Connection, asyncio.Protocol):
    """A connection to one server. Error replies are raised as hiredis.ReplyError."""

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout, batched=True)
        self._transport: asyncio.Transport | None = None
        self._batch: list[bytes] = []
        self._reader = hiredis.Reader(notEnoughData=INCOMPLETE)
        self._start_clock()

    @classmethod
    async def open(cls, url: SplitResult, reply_timeout: float) -> Self:
        """Connect, authenticate and select the database. Raises exceptions of any type."""
        loop = asyncio.get_running_loop()
        connection = cls(reply_timeout)
        try:
            if url.scheme == "unix":
                await loop.create_unix_connection(lambda: connection, unquote(url.path))
            else:
                host, port = url.hostname or "localhost", url.port or 6379
                tls = get_tls_context(url.geturl()) if url.scheme == "rediss" else None
                await loop.create_connection(lambda: connection, host, port, ssl=tls)
            for command in build_handshake(url):
                await connection._execute(command)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _execute(self, command: tuple[str, ...]) -> None:
        future = ReplyFuture()
        self._enqueue(future, self._batch.append, pack(command))
        self._send()
        reply = await future
        if isinstance(reply, hiredis.HiredisError):
            raise reply

    def call(self, *command: str | bytes | int) -> Any:
        """Run a command. Raises ConnectionFailedError, and hiredis.ReplyError for error replies."""
        reply = self.round_trip(self._batch.append, pack(command))
        if isinstance(reply, hiredis.HiredisError):
            raise reply
        return reply

    def run(self, script: Any, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        parameters = (len(keys), *keys, *arguments)
        try:
            return self.call("EVALSHA", script.sha, *parameters)
        except hiredis.ReplyError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise
            return self.call("EVAL", script.source, *parameters)

    def _disconnect(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        assert self._transport is not None
        self._transport.write(b"".join(batch))

    # Methods of asyncio.Protocol

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if self.error is not None:  # It timed out while connecting.
            transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while self.error is None and (reply := self._reader.gets()) is not INCOMPLETE:
                if self._queue:
                    self._resolve_next(reply)
                else:
                    self.fail(ConnectionClosedError(f"Unexpected reply: {reply!r}"))
        except hiredis.HiredisError as error:
            self.fail(ConnectionClosedError(str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(ConnectionClosedError(str(exc or "The server closed the connection.")))


class SharedRedisConnection(SharedConnection[RedisConnection]):
    def __init__(self, url: str, timeout: float) -> None:
        """Use the same timeout, in seconds, for connecting and for each reply."""
        super().__init__(timeout)
        self._url = urlsplit(url)

    async def _open(self) -> RedisConnection:
        return await RedisConnection.open(self._url, self._timeout)


def build_handshake(url: SplitResult) -> list[tuple[str, ...]]:
    """Return the commands that open a session. The URL has the same meaning as in redis-py."""
    commands: list[tuple[str, ...]] = []
    if password := unquote(url.password or ""):
        user = unquote(url.username or "")
        commands.append(("AUTH", user, password) if user else ("AUTH", password))
    path_database = "" if url.scheme == "unix" else url.path.strip("/")
    if database := parse_qs(url.query).get("db", [path_database])[0]:
        commands.append(("SELECT", database))
    return commands


@cache  # Reading the certificates blocks the loop.
def get_tls_context(url: str) -> ssl.SSLContext:
    """Let redis-py interpret the options of the URL, such as `ssl_ca_certs`."""
    from redis.asyncio.connection import SSLConnection, parse_url  # Imported late to save memory.

    options: dict[str, Any] = dict(parse_url(url))
    options.pop("connection_class")
    return SSLConnection(**options).ssl_context.get()


def pack(command: tuple[str | bytes | int, ...]) -> bytes:
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # The stub allows one element.
    return packed
