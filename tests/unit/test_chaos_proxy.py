"""The proxy of the chaos test does to connections what each fault says, and nothing once it is over."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from tests.system.chaos.faults import Fault, Kind
from tests.system.chaos.proxy import REACH, Proxy

SOON = 2.0  # Seconds, for what must happen.
NEVER = 0.05  # Seconds, for what must not: nothing else is there to wait for.
TEXT = b"0123456789" * (max(REACH) // 10 + 1)


class Ends(NamedTuple):
    """A client's connection through the proxy, and the proxy."""

    proxy: Proxy
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def echo(self, text: bytes = b"ping\n") -> bytes:
        """Send, and return what comes back."""
        self.writer.write(text)
        return await asyncio.wait_for(self.reader.readexactly(len(text)), SOON)

    async def ended(self) -> bytes:
        """Return what comes before the end."""
        return await asyncio.wait_for(self.reader.read(), SOON)


@asynccontextmanager
async def proxied() -> AsyncIterator[Proxy]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1024):
            writer.write(data)
        writer.close()

    backend = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with Proxy(backend.sockets[0].getsockname()[1]) as proxy:
        yield proxy
    backend.close()


@asynccontextmanager
async def connected(proxy: Proxy) -> AsyncIterator[Ends]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield Ends(proxy, reader, writer)
    finally:
        writer.close()


def fault(kind: Kind) -> Fault:
    return Fault(0.0, "redis", kind, 1.0, 1)


def on_a_connection(test: Callable[[Ends], Awaitable[None]]) -> None:
    """Run it on a connection that works, and see afterwards that a new one does."""

    async def run() -> None:
        async with proxied() as proxy:
            async with connected(proxy) as ends:
                assert await ends.echo() == b"ping\n"
                await test(ends)
            proxy.mend()
            async with connected(proxy) as ends:
                assert await ends.echo() == b"ping\n"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("kind", "answers"), [(Kind.AT_ACCEPT, {b"", b"ping\n"}), (Kind.AFTER_GREETING, {b"ping\n"})]
)
def test_connections_are_closed_the_old_and_the_new(kind: Kind, answers: set[bytes]) -> None:
    async def test(ends: Ends) -> None:
        ends.proxy.strike(fault(kind))
        assert await ends.ended() == b""
        async with connected(ends.proxy) as other:
            other.writer.write(b"ping\n")
            assert await other.ended() in answers

    on_a_connection(test)


def test_reset_is_no_orderly_end() -> None:
    async def test(ends: Ends) -> None:
        ends.proxy.strike(fault(Kind.RESET))
        with pytest.raises(ConnectionResetError):
            await ends.ended()

    on_a_connection(test)


def test_connection_ends_at_a_byte() -> None:
    async def test(ends: Ends) -> None:
        ends.proxy.strike(fault(Kind.AT_A_BYTE))
        ends.writer.write(TEXT)
        came = await ends.ended()
        assert TEXT.startswith(came)
        assert len(came) < len(TEXT)

    on_a_connection(test)


def test_frozen_bytes_come_later() -> None:
    async def test(ends: Ends) -> None:
        ends.proxy.strike(fault(Kind.FREEZE))
        ends.writer.write(b"one\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ends.reader.read(1), NEVER)
        ends.proxy.mend()
        assert await ends.echo(b"two\n") == b"one\n"

    on_a_connection(test)


def test_delayed_bytes_come_in_order() -> None:
    async def test(ends: Ends) -> None:
        ends.proxy.strike(fault(Kind.DELAY))
        assert await ends.echo(b"one\n") == b"one\n"
        assert await ends.echo(b"two\n") == b"two\n"

    on_a_connection(test)


def test_black_hole_answers_nobody_and_gives_nothing_back() -> None:
    async def test(ends: Ends) -> None:
        ends.proxy.strike(fault(Kind.BLACK_HOLE))
        ends.writer.write(b"lost\n")
        async with connected(ends.proxy) as other:
            other.writer.write(b"lost\n")
            for each in (ends, other):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(each.reader.read(1), NEVER)
            ends.proxy.mend()
            for each in (ends, other):
                with pytest.raises(ConnectionResetError):
                    await each.ended()

    on_a_connection(test)


def test_new_connections_go_to_the_new_backend_and_old_ones_stay() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    async def test(ends: Ends) -> None:
        new = await asyncio.start_server(shout, "127.0.0.1", 0)
        old, ends.proxy.backend = ends.proxy.backend, new.sockets[0].getsockname()[1]
        async with connected(ends.proxy) as other:
            assert await other.echo() == b"PING\n"
        assert await ends.echo() == b"ping\n"
        ends.proxy.backend = old
        new.close()

    on_a_connection(test)
