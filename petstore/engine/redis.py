"""Redis for the event loop: hiredis reads and writes the protocol, the loop the socket."""

import asyncio
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import hiredis

from petstore.engine.pipe import LostError, Pipe

INCOMPLETE = object()


class RedisPipe(Pipe, asyncio.Protocol):
    """Sends commands to one server. Error replies come back as `hiredis.HiredisError`s, raised."""

    def __init__(self, url: str, limit: float) -> None:
        super().__init__(limit)
        self._url = urlsplit(url)
        self._transport: Any = None
        self._greeted: asyncio.Future[Any]
        self._gathered: list[bytes] = []
        self._reader = hiredis.Reader()

    def call(self, *command: str | bytes | int) -> Any:
        """Return the reply. Raises PipeError, or hiredis.ReplyError for an error that Redis reports."""
        self._be_open()
        self._gathered.append(pack(command))
        reply = self._wait_for_answer()
        if isinstance(reply, hiredis.HiredisError):
            raise reply
        return reply

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(notEnoughData=INCOMPLETE)
        self._gathered = []
        self._greeted = loop.create_future()
        self._greeted.set_result(None)
        if self._url.scheme == "unix":
            await loop.create_unix_connection(lambda: self, unquote(self._url.path))
        else:
            await loop.create_connection(
                lambda: self, self._url.hostname or "localhost", self._url.port or 6379
            )
        for command in self._greetings():
            self._greeted = loop.create_future()
            self._transport.write(pack(command))
            reply = await self._greeted
            if isinstance(reply, hiredis.HiredisError):
                raise reply

    def _greetings(self) -> list[tuple[str | int, ...]]:
        """Return the commands that begin a connection, as the URL has them (as redis-py reads it)."""
        found: list[tuple[str | int, ...]] = []
        if password := unquote(self._url.password or ""):
            user = unquote(self._url.username or "")
            found.append(("AUTH", user, password) if user else ("AUTH", password))
        in_path = "" if self._url.scheme == "unix" else self._url.path.strip("/")
        database = parse_qs(self._url.query).get("db", [in_path])[0]
        if database:
            found.append(("SELECT", database))
        return found

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._transport.write(b"".join(gathered))

    # --- What the loop calls: see asyncio.Protocol -----------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Give each reply to whoever has asked for it."""
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not INCOMPLETE:
                self._deliver(reply)
        except hiredis.HiredisError as error:
            self._lose(LostError(str(error)))

    def _deliver(self, reply: Any) -> None:
        if self._asked:
            self._asked.popleft()[0].switch(reply)
        elif not self._greeted.done():
            self._greeted.set_result(reply)
        else:
            self._lose(LostError(f"It says {reply!r} unasked."))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits."""
        if not self._greeted.done():
            self._greeted.set_exception(exc or ConnectionResetError("closed by the other side"))
        self._lose(LostError(str(exc or "closed by the other side")))


def pack(command: tuple[str | bytes | int, ...]) -> bytes:
    """Return a command in Redis's protocol; hiredis is typed for tuples of one element."""
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]
    return packed
