"""Handles and transports of the simulated loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

from tests.simulation.network import Socket


class Handle:
    """A lean asyncio.Handle."""

    __slots__ = ("_args", "_callback", "_context", "_when", "is_cancelled")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None, when: float
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = copy_context() if context is None else context
        self._when = when
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self._when

    def run(self) -> None:
        self._context.run(self._callback, *self._args)


class Transport(asyncio.Transport):
    """A stream over a simulated socket that behaves like asyncio's."""

    def __init__(self, loop: Any, socket: Socket, protocol: Any) -> None:
        super().__init__()
        self._loop = loop
        self._socket = socket
        self._protocol = protocol
        self._is_closing = False

    def start(self, waiter: asyncio.Future[None]) -> None:
        """Call the protocol, start reading and resolve the waiter, in one iteration each."""
        self._loop.call_soon(self._protocol.connection_made, self)
        self._loop.call_soon(self._read)
        self._loop.call_soon(set_unless_done, waiter, None)

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._socket.send([bytes(data)])

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Close, and notify the protocol in a later iteration."""
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    def _read(self) -> None:
        if not self._is_closing:
            self._socket.on_readable = self._readable

    def _readable(self) -> None:
        parts = self._socket.take()
        if parts:
            self._protocol.data_received(b"".join(parts))
        elif self._socket.ended == "closed":
            if not self._protocol.eof_received():
                self._end(None)
        else:
            self._end(ConnectionResetError(104, "Connection reset by peer"))

    def _end(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._socket.close()
            self._loop.call_soon(self._protocol.connection_lost, error)


def set_unless_done(future: asyncio.Future[Any], result: Any) -> None:
    """Resolve a future that is not done."""
    if not future.done():
        future.set_result(result)
