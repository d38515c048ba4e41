"""A connection that all requests share and that is replaced when it closes."""

import asyncio
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from petstore.event_loop.connection import Connection, ConnectionFailedError, with_timeout
from petstore.event_loop.greenlets import wait

RECONNECT_DELAY = 0.5  # Seconds.

Shared = TypeVar("Shared", bound=Connection)


class SharedConnection(ABC, Generic[Shared]):
    """One connection at a time, opened by the first request that needs it."""

    def __init__(self, timeout: float) -> None:
        """Create it without connecting. `timeout` limits opening a connection, in seconds."""
        self._timeout = timeout
        self._connection: Shared | None = None
        self._attempt: asyncio.Task[Shared] | None = None
        self._failed_at = float("-inf")

    @abstractmethod
    async def _open(self) -> Shared:
        """Connect. If it raises an exception, which may be of any type, it must leave nothing open."""

    def _is_unavailable(self) -> bool:
        return False

    def get_connection(self) -> Shared:
        """Return the open connection, or wait until one is open. Only requests on the loop may call this.

        Raises ConnectionFailedError if the server is unavailable, or if connecting fails or failed less
        than RECONNECT_DELAY ago.
        """
        if self._connection is not None:
            if self._connection.is_usable:
                return self._connection
            self.close()
        if self._is_unavailable():
            raise ConnectionFailedError("The server is unavailable.")
        loop = asyncio.get_running_loop()
        if self._attempt is None:
            if loop.time() - self._failed_at < RECONNECT_DELAY:
                raise ConnectionFailedError("The last attempt to connect has just failed.")
            self._attempt = loop.create_task(self._connect())
        try:
            return wait(asyncio.shield(self._attempt))
        except ConnectionFailedError as error:
            # Each waiting request needs its own exception instance.
            raise ConnectionFailedError(*error.args) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connect(self) -> Shared:
        try:
            connection = await with_timeout(self._timeout, self._open())
            if connection.error is not None:
                raise connection.error  # It closed right after it opened.
        except Exception as error:
            self._failed_at = asyncio.get_running_loop().time()
            raise ConnectionFailedError(f"{type(error).__name__}: {error}") from error
        finally:
            self._attempt = None
        self._connection = connection
        return connection
