"""A TCP proxy that simulates failures of networks, proxies and servers."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from enum import Enum
from math import exp, log
from typing import Any

from tests.chaos.faults import Fault, Kind

CHUNK = 1 << 16
# Lifetimes of doomed connections in seconds. Many end while they are opened, on any time scale; the others
# are in use by then.
MAX_ITERATIONS = 30  # Of the proxy's loop: up to a few milliseconds.
SOON = (0.001, 0.02)
LATER = (0.05, 0.5)
HALF = 0.5
DELAYS = (0.005, 0.3)  # Seconds, each piece.
REACH = (20, 400, 5_000)  # Bytes after which a connection may be closed.
READY_FOR_QUERY = b"Z\x00\x00\x00\x05"  # PostgreSQL's manual, "Message Formats".
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # socket(7): SO_LINGER.


class Way(Enum):
    """The direction of bytes."""

    UP = "to the backend"
    DOWN = "to the client"


class Link:
    """A client's connection and its counterpart to the backend."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.client = client
        self.backend: asyncio.StreamWriter | None = None
        self.swallowed = False  # Whether bytes were dropped, which makes it unusable.
        self.greeted = False
        self.closing_way = Way.UP  # Where it is cut, and after how many bytes more.
        self.bytes_left = 0

    def aim(self, dice: random.Random) -> None:
        """Choose the byte at which it breaks."""
        self.closing_way = dice.choice(list(Way))
        self.bytes_left = dice.randint(0, dice.choice(REACH))

    def close(self, *, reset: bool = False) -> None:
        """Close both sides after sending the rest, or reset them."""
        for writer in (self.client, self.backend):
            if writer is None:
                continue
            if reset:
                with suppress(OSError):
                    end: socket.socket = writer.get_extra_info("socket")
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                writer.transport.abort()
            else:
                writer.close()


class Proxy:
    def __init__(self, backend: int, greeting: bytes = b"") -> None:
        """Take the backend's port, and what ends its greeting; nothing: its first bytes are all of it."""
        self.backend = backend
        self.port = 0
        self.struck: Counter[Kind] = Counter()  # Connections that a fault touched.
        self._greeting = greeting
        self._fault: Fault | None = None
        self._dice = random.Random()
        self._calm = asyncio.Event()
        self._calm.set()
        self._links: set[Link] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *args: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def strike(self, fault: Fault) -> None:
        """Start a fault, which lasts until `mend`."""
        self._fault, self._dice = fault, random.Random(fault.seed)
        if fault.kind is Kind.FREEZE:
            self._calm.clear()
        for link in list(self._links):
            if fault.kind in {Kind.AT_ACCEPT, Kind.AFTER_GREETING, Kind.RESET}:
                self.struck[fault.kind] += 1
                link.close(reset=fault.kind is Kind.RESET)
            link.aim(self._dice)

    def mend(self) -> None:
        """End the fault. Connections that lost bytes stay unusable."""
        self._fault = None
        self._calm.set()
        for link in list(self._links):
            if link.swallowed:
                link.close(reset=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        link = Link(writer)
        link.aim(self._dice)
        self._links.add(link)
        try:
            await self._serve(link, reader)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._links.discard(link)
            self._tasks.discard(task)
            link.close()

    async def _serve(self, link: Link, reader: asyncio.StreamReader) -> None:
        kind = self._fault.kind if self._fault else None
        if kind in {Kind.AT_ACCEPT, Kind.RESET}:
            self.struck[kind] += 1
            if self._dice.random() < HALF:  # The backend hears nothing of it.
                await self._close_soon(link, reset=kind is Kind.RESET)
                return
            self._begin(self._close_soon(link, reset=kind is Kind.RESET))
        if kind is Kind.BLACK_HOLE:
            self.struck[kind] += 1
            link.swallowed = True
            while await reader.read(CHUNK):
                pass
            return
        answers, link.backend = await asyncio.open_connection("127.0.0.1", self.backend)
        pumps = [
            asyncio.create_task(self._pump(link, reader, link.backend, Way.UP)),
            asyncio.create_task(self._pump(link, answers, link.client, Way.DOWN)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, link: Link, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: Way
    ) -> None:
        """Forward data as the current fault allows, until the connection ends."""
        while data := await source.read(CHUNK):
            if (fault := self._fault) is not None:
                self.struck[fault.kind] += 1
            if fault is not None and fault.kind is Kind.DELAY:
                await asyncio.sleep(self._dice.uniform(*DELAYS))
            await self._calm.wait()
            if link.swallowed or (fault is not None and fault.kind is Kind.BLACK_HOLE):
                link.swallowed = True
                continue
            if fault is not None and fault.kind is Kind.AT_A_BYTE and way is link.closing_way:
                passed = data[: link.bytes_left]
                link.bytes_left -= len(data)
                if link.bytes_left <= 0:
                    sink.write(passed)
                    return
            sink.write(data)
            await sink.drain()
            if way is Way.DOWN and not link.greeted and self._greeting in data:
                link.greeted = True
                if fault is not None and fault.kind is Kind.AFTER_GREETING:
                    self._begin(self._close_soon(link))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that ends with the proxy."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close_soon(self, link: Link, *, reset: bool = False) -> None:
        """Close a doomed connection, now or later."""
        match self._dice.choice(["iterations", "soon", "later", "later"]):
            case "iterations":  # Finer than the loop's clock.
                for _ in range(self._dice.randint(0, MAX_ITERATIONS)):
                    await asyncio.sleep(0)
            case "soon":
                await asyncio.sleep(exp(self._dice.uniform(log(SOON[0]), log(SOON[1]))))
            case "later":
                await asyncio.sleep(self._dice.uniform(*LATER))
        link.close(reset=reset)
