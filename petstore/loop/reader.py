"""Reads on the event loop: all requests share one connection of PostgreSQL."""

import asyncio
from collections.abc import Sequence
from functools import cache
from itertools import count

from petstore.db.monitor import is_away
from petstore.loop.connecting import Connect, connect_in_thread, opening_limit
from petstore.loop.connection import LostError, PipeError
from petstore.loop.libpq import Statement, Value
from petstore.loop.pipe import Pipe
from petstore.loop.postgresql import ATTEMPTS, NotDoneError, PostgresqlConnection, Rows, as_django

REPEAT_WITHIN = 1.0  # Seconds from the first attempt on: a connection that was cut shows it at once.


class Reader(Pipe[PostgresqlConnection]):
    """The connection that all reads of a database share; what it loses is asked again on the next one."""

    def __init__(self, alias: str, connect: Connect = connect_in_thread) -> None:
        super().__init__(opening_limit(alias))
        self._alias = alias
        self._connect_to = connect

    def rows(self, statement: Statement, values: Sequence[Value]) -> Rows:
        """Return a statement's rows. Raises what Django raises for a query."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for attempt in count(1):
            try:
                return self.connected().rows(statement, values, alone=attempt > 1)
            except PipeError as error:
                lost = isinstance(error, LostError) and loop.time() - began <= REPEAT_WITHIN
                repeats = lost or isinstance(error, NotDoneError)
                if attempt == ATTEMPTS or not repeats:
                    raise as_django(self._alias, error) from error
        raise AssertionError  # The last attempt raises.

    def _is_away(self) -> bool:
        return is_away(self._alias)

    async def _open(self) -> PostgresqlConnection:
        return await PostgresqlConnection.open(self._alias, self._connect_to, shared=True)


@cache
def reader(alias: str) -> Reader:
    return Reader(alias)
