"""Redis for the event loop: hiredis reads and writes the protocol, the loop the socket."""

import asyncio
import ssl
from collections.abc import Sequence
from functools import cache
from typing import Any, Self
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import hiredis

from petstore.event_loop.connection import Answer, Connection, LostError
from petstore.event_loop.shared_connection import Pipe

INCOMPLETE = object()


class RedisConnection(Connection, asyncio.Protocol):
    """Sends commands to one server. Error replies come back as `hiredis.HiredisError`s, raised."""

    def __init__(self, limit: float) -> None:
        super().__init__(limit, gathers=True)
        self._transport: asyncio.Transport | None = None
        self._gathered: list[bytes] = []
        self._reader = hiredis.Reader(notEnoughData=INCOMPLETE)
        self._begin()

    @classmethod
    async def open(cls, url: SplitResult, limit: float) -> Self:
        """Return a connection that the server has greeted. Raises any exception."""
        loop = asyncio.get_running_loop()
        connection = cls(limit)
        try:
            if url.scheme == "unix":
                await loop.create_unix_connection(lambda: connection, unquote(url.path))
            else:
                host, port = url.hostname or "localhost", url.port or 6379
                tls = tls_context(url.geturl()) if url.scheme == "rediss" else None
                await loop.create_connection(lambda: connection, host, port, ssl=tls)
            for command in greetings(url):
                await connection._greet(command)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _greet(self, command: tuple[str, ...]) -> None:
        answer = Answer()
        self._enter(answer, self._gathered.append, pack(command))
        self._send()
        reply = await answer
        if isinstance(reply, hiredis.HiredisError):
            raise reply

    def call(self, *command: str | bytes | int) -> Any:
        """Return the reply. Raises PipeError, or hiredis.ReplyError for an error that Redis reports."""
        reply = self.ask(self._gathered.append, pack(command))
        if isinstance(reply, hiredis.HiredisError):
            raise reply
        return reply

    def run(self, script: Any, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Return a script's reply; raises as `call` does."""
        rest = (len(names), *names, *arguments)
        try:
            return self.call("EVALSHA", script.sha, *rest)
        except hiredis.ReplyError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise
            return self.call("EVAL", script.source, *rest)

    def _disconnect(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        assert self._transport is not None
        self._transport.write(b"".join(gathered))

    # --- What the loop calls: see asyncio.Protocol -----------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Keep the transport; who was given up meanwhile has none."""
        self._transport = transport
        if self.error is not None:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Give each reply to whoever has asked for it."""
        try:
            self._reader.feed(data)
            while self.error is None and (reply := self._reader.gets()) is not INCOMPLETE:
                if self._row:
                    self._answer(reply)
                else:
                    self.lose(LostError(f"It says {reply!r} unasked."))
        except hiredis.HiredisError as error:
            self.lose(LostError(str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lose(LostError(str(exc or "closed by the other side")))


class RedisPipe(Pipe[RedisConnection]):
    """The way to one server."""

    def __init__(self, url: str, limit: float) -> None:
        """`limit`: seconds that an answer may take, and a connection."""
        super().__init__(limit)
        self._url = urlsplit(url)

    async def _open(self) -> RedisConnection:
        return await RedisConnection.open(self._url, self._limit)


def greetings(url: SplitResult) -> list[tuple[str, ...]]:
    """Return the commands that begin a connection, as the URL has them (as redis-py reads it)."""
    found: list[tuple[str, ...]] = []
    if password := unquote(url.password or ""):
        user = unquote(url.username or "")
        found.append(("AUTH", user, password) if user else ("AUTH", password))
    in_path = "" if url.scheme == "unix" else url.path.strip("/")
    database = parse_qs(url.query).get("db", [in_path])[0]
    if database:
        found.append(("SELECT", database))
    return found


@cache  # Reading the certificates blocks, and a reconnect needs no second look.
def tls_context(url: str) -> ssl.SSLContext:
    """Return what redis-py makes of the URL's options, such as `ssl_ca_certs`."""
    from redis.asyncio.connection import SSLConnection, parse_url  # Memory that others need not spend.

    options: dict[str, Any] = dict(parse_url(url))
    options.pop("connection_class")
    return SSLConnection(**options).ssl_context.get()


def pack(command: tuple[str | bytes | int, ...]) -> bytes:
    """Return a command in Redis's protocol; hiredis is typed for tuples of one element."""
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]
    return packed
