"""A TCP proxy that injects failures of networks, proxies and servers."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Coroutine
from contextlib import suppress
from enum import Enum
from math import exp, log
from typing import Any

from tests.chaos.faults import Fault, FaultKind

CHUNK = 1 << 16
# Lifetimes of doomed connections in seconds. Many are closed while they are being opened, on any time
# scale; the others are in use by then.
MAX_ITERATIONS = 30  # Of the proxy's loop: up to a few milliseconds.
SOON = (0.001, 0.02)
LATER = (0.05, 0.5)
NO_BACKEND = 0.5  # The share of doomed connections that never reach the backend.
DELAYS = (0.005, 0.3)  # Seconds, for each chunk.
MAX_BYTES = (20, 400, 5_000)  # After which a connection may be closed.
READY_FOR_QUERY = b"Z\x00\x00\x00\x05"  # PostgreSQL's manual, "Message Formats".
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # socket(7): SO_LINGER.


class Direction(Enum):
    TO_BACKEND = 1
    TO_CLIENT = 2


class Link:
    """A client's connection and its counterpart to the backend."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.client = client
        self.backend: asyncio.StreamWriter | None = None
        self.dropped_bytes = False  # Makes it unusable.
        self.greeted = False
        self.cut_direction = Direction.TO_BACKEND
        self.bytes_left = 0  # Until the cut in that direction.

    def plan_cut(self, chance: random.Random) -> None:
        """Choose the byte at which it breaks."""
        self.cut_direction = chance.choice(list(Direction))
        self.bytes_left = chance.randint(0, chance.choice(MAX_BYTES))

    def close(self, *, reset: bool = False) -> None:
        """Close both sides after sending the rest, or reset them."""
        for writer in (self.client, self.backend):
            if writer is None:
                continue
            if reset:
                with suppress(OSError):
                    raw: socket.socket = writer.get_extra_info("socket")
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                writer.transport.abort()
            else:
                writer.close()


class Proxy:
    def __init__(self, backend: int, greeting: bytes = b"") -> None:
        """Take the backend's port, and the end of its greeting; by default, any first bytes end it."""
        self.backend = backend
        self.port = 0
        self._greeting = greeting
        self._fault: Fault | None = None
        self._chance = random.Random()
        self._thawed = asyncio.Event()
        self._thawed.set()
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

    def inject(self, fault: Fault) -> None:
        """Start a fault, which lasts until `heal`."""
        self._fault, self._chance = fault, random.Random(fault.seed)
        if fault.kind is FaultKind.FREEZE:
            self._thawed.clear()
        for link in list(self._links):
            if fault.kind in {FaultKind.AT_ACCEPT, FaultKind.AFTER_GREETING, FaultKind.RESET}:
                link.close(reset=fault.kind is FaultKind.RESET)
            link.plan_cut(self._chance)

    def heal(self) -> None:
        """End the fault, and reset connections that lost bytes."""
        self._fault = None
        self._thawed.set()
        for link in list(self._links):
            if link.dropped_bytes:
                link.close(reset=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        link = Link(writer)
        link.plan_cut(self._chance)
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
        if kind in {FaultKind.AT_ACCEPT, FaultKind.RESET}:
            if self._chance.random() < NO_BACKEND:
                await self._close_soon(link, reset=kind is FaultKind.RESET)
                return
            self._start_task(self._close_soon(link, reset=kind is FaultKind.RESET))
        if kind is FaultKind.BLACK_HOLE:
            link.dropped_bytes = True
            while await reader.read(CHUNK):
                pass
            return
        responses, link.backend = await asyncio.open_connection("127.0.0.1", self.backend)
        pumps = [
            asyncio.create_task(self._pump(link, reader, link.backend, Direction.TO_BACKEND)),
            asyncio.create_task(self._pump(link, responses, link.client, Direction.TO_CLIENT)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, link: Link, source: asyncio.StreamReader, sink: asyncio.StreamWriter, direction: Direction
    ) -> None:
        """Forward data as the current fault allows, until the connection ends."""
        while data := await source.read(CHUNK):
            kind = self._fault.kind if self._fault else None
            if kind is FaultKind.DELAY:
                await asyncio.sleep(self._chance.uniform(*DELAYS))
            await self._thawed.wait()
            if link.dropped_bytes or kind is FaultKind.BLACK_HOLE:
                link.dropped_bytes = True
                continue
            if kind is FaultKind.AT_A_BYTE and direction is link.cut_direction:
                forwarded = data[: link.bytes_left]
                link.bytes_left -= len(data)
                if link.bytes_left <= 0:
                    sink.write(forwarded)
                    return
            sink.write(data)
            await sink.drain()
            if direction is Direction.TO_CLIENT and not link.greeted and self._greeting in data:
                link.greeted = True
                if kind is FaultKind.AFTER_GREETING:
                    self._start_task(self._close_soon(link))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that is cancelled with the proxy."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close_soon(self, link: Link, *, reset: bool = False) -> None:
        """Close a doomed connection, now or later."""
        match self._chance.choice(["iterations", "soon", "later", "later"]):
            case "iterations":  # Finer than the loop's clock.
                for _ in range(self._chance.randint(0, MAX_ITERATIONS)):
                    await asyncio.sleep(0)
            case "soon":
                await asyncio.sleep(exp(self._chance.uniform(log(SOON[0]), log(SOON[1]))))
            case "later":
                await asyncio.sleep(self._chance.uniform(*LATER))
        link.close(reset=reset)
