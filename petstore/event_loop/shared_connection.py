"""The way to a server that all requests share: an open connection, and another one when that is lost."""

import asyncio
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from petstore.event_loop.connection import Connection, PipeError, within
from petstore.event_loop.greenlets import wait

PAUSE_AFTER_FAILURE = 0.5  # Seconds in which nobody tries again to connect.

Shared = TypeVar("Shared", bound=Connection)


class Pipe(ABC, Generic[Shared]):
    """One connection at a time, opened by whoever needs it first."""

    def __init__(self, limit: float) -> None:
        """`limit`: seconds that opening a connection may take."""
        self._limit = limit
        self._connection: Shared | None = None
        self._attempt: asyncio.Task[Shared] | None = None
        self._failed_at = float("-inf")

    @abstractmethod
    async def _open(self) -> Shared:
        """Connect. Raises any exception, and leaves nothing open then."""

    def _is_away(self) -> bool:
        return False

    def connected(self) -> Shared:
        """Return the connection, open when this was last looked at; for a request on the loop.

        Raises PipeError if none can be opened, or has just failed to be.
        """
        if self._connection is not None:
            if self._connection.is_of_use:
                return self._connection
            self.close()
        if self._is_away():
            raise PipeError("The other side is away.")
        loop = asyncio.get_running_loop()
        if self._attempt is None:
            if loop.time() - self._failed_at < PAUSE_AFTER_FAILURE:
                raise PipeError("The last attempt to connect has just failed.")
            self._attempt = loop.create_task(self._connect())
        try:
            return wait(asyncio.shield(self._attempt))
        except PipeError as error:
            raise PipeError(*error.args) from error  # Each who waits has one of its own.

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connect(self) -> Shared:
        try:
            connection = await within(self._limit, self._open())
            if connection.error is not None:
                raise connection.error  # It has opened and was lost already.
        except Exception as error:
            self._failed_at = asyncio.get_running_loop().time()
            raise PipeError(f"{type(error).__name__}: {error}") from error
        finally:
            self._attempt = None
        self._connection = connection
        return connection
