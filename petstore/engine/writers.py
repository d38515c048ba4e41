"""Writes on the event loop: each transaction has a connection of PostgreSQL to itself.

Every statement that somebody waits for costs a turn of the loop, in which others can't use the connection.
What nobody needs the result of is therefore sent with what comes next, at the latest with COMMIT.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from time import monotonic
from typing import Any

import psycopg
from django.conf import settings
from django.db import OperationalError
from greenlet import greenlet

from petstore.engine.pipe import LostError, PipeError
from petstore.engine.postgresql import (
    DONE,
    PostgresqlPipe,
    Rows,
    Statement,
    Value,
    encoded,
    was_forgotten,
)
from petstore.engine.waiting import QUEUED_TOO_LONG, pause, this_turn

BEGIN = Statement(b"begin", b"BEGIN")
COMMIT = Statement(b"commit", b"COMMIT")
ROLLED_BACK = "The transaction was rolled back."


class Later:
    """Stands in the row for a statement that nobody waits for; keeps its failure."""

    def __init__(self, pipe: "WritingPipe", statement: Statement) -> None:
        self._pipe = pipe
        self._statement = statement

    def switch(self, result: Any) -> None:
        """Take the result."""
        if result.status not in DONE:
            self._pipe.fail(self._statement, result)

    def throw(self, error: PipeError) -> None:
        """Hear that the connection is lost, as whoever waits for the next statement does."""


class WritingPipe(PostgresqlPipe):
    """A connection for one transaction at a time, of one statement or of several."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias, reads=False)
        self._holds = False  # A transaction of several statements.
        self.doomed = False  # A part of it was left by an exception: it must not commit.
        self._failure: Any = None  # The result of the first that failed unheard.

    def opens(self) -> bool:
        """Tell whether it is open, after trying."""
        with suppress(PipeError):
            self._be_open()
        return self.is_open

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make what is asked inside one transaction: all of it is done, or after an exception nothing."""
        self._holds, self.doomed, self._failure = True, False, None
        try:
            self.send(BEGIN)
            yield
            if self.doomed:
                raise OperationalError(ROLLED_BACK)
            # PostgreSQL ends a transaction in which something failed with ROLLBACK, and calls that success.
            if self._run(COMMIT).command_status != b"COMMIT":
                raise OperationalError(ROLLED_BACK)
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._holds = False

    def send(self, statement: Statement, values: Sequence[Value] = ()) -> None:
        """Ask without waiting, in a transaction: what is asked next raises what this should have raised."""
        if not self.is_open or (self._prepares and statement.name not in self._prepared):
            self._run(statement, values)
            return
        self._put(statement, *encoded(values))
        self._asked.append((Later(self, statement), monotonic()))

    def fail(self, statement: Statement, result: Any) -> None:
        """Keep the failure of a statement that nobody waits for."""
        if was_forgotten(result):
            self._prepared.discard(statement.name)
        if self._failure is None:
            self._failure = result

    def _result(self, statement: Statement, values: Sequence[Value]) -> Any:
        if not self._holds:
            return super()._result(statement, values)
        if statement is BEGIN:
            self._be_open()
        elif not self.is_open:
            raise LostError(ROLLED_BACK)
        result = self._ask(statement, *encoded(values))  # Once: a transaction can't go on after a failure.
        if self._failure is not None:
            result, self._failure = self._failure, None
        if was_forgotten(result):
            self._prepared.discard(statement.name)
            raise LostError(ROLLED_BACK)
        return result

    def _roll_back(self) -> None:
        """End the transaction, or the connection. What was sent and fails takes a ROLLBACK along."""
        with suppress(PipeError, psycopg.Error):
            for _ in range(2):
                if not self.is_open:
                    return
                self._connection.pgconn.send_query_params(b"ROLLBACK", [])
                if self._wait_for_answer().status in DONE:
                    return
        self.close()


class Writers:
    """A few connections, each with one transaction at a time: every write is one, unless it is in one.

    Where the server takes no more connections, those that are open serve all.
    """

    def __init__(self, alias: str) -> None:
        self._all = [WritingPipe(alias) for _ in range(settings.WRITE_CONNECTIONS)]
        self._free = deque(self._all)  # The open ones at the right, from where they are taken.
        self._waiting: deque[Any] = deque()

    def rows(self, statement: Statement, values: Sequence[Value]) -> Rows:
        """Return a statement's rows. Raises what Django raises for a query."""
        held: WritingPipe | None = this_turn().transaction
        if held is not None:
            return held.rows(statement, values)
        with self._one() as pipe:
            return pipe.rows(statement, values)

    def send(self, statement: Statement, values: Sequence[Value]) -> None:
        """Ask without waiting, in a transaction: what is asked next raises what this should have raised."""
        held: WritingPipe | None = this_turn().transaction
        assert held is not None
        held.send(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make what the caller writes inside one transaction, or part of the one that it has open.

        Raises what Django raises for a query.
        """
        turn = this_turn()
        if turn.transaction is not None:
            try:
                yield
            except BaseException:
                turn.transaction.doomed = True
                raise
            return
        with self._one() as pipe, pipe.transaction():
            turn.transaction = pipe
            try:
                yield
            finally:
                turn.transaction = None

    @contextmanager
    def _one(self) -> Iterator[WritingPipe]:
        """Yield a connection that nobody else uses meanwhile."""
        pipe = self._take()
        try:
            yield pipe
        finally:
            self._give(pipe)

    def _take(self) -> WritingPipe:
        pipe = self._free.pop() if self._free else self._wait_for_free()
        while not pipe.opens() and self._some_serve():  # Where none serves, it says why.
            self._give(pipe)
            pipe = self._free.pop() if self._free[-1].is_open else self._wait_for_free()
        return pipe

    def _give(self, pipe: WritingPipe) -> None:
        if self._waiting and (pipe.is_open or not self._some_serve()):
            asyncio.get_running_loop().call_soon(self._waiting.popleft().switch, pipe)
        elif pipe.is_open:
            self._free.append(pipe)
        else:
            self._free.appendleft(pipe)

    def _some_serve(self) -> bool:
        """Tell whether a connection is open, or being opened."""
        return any(pipe.is_open or pipe.is_opening for pipe in self._all)

    def _wait_for_free(self) -> WritingPipe:
        turn = this_turn()
        self._waiting.append(turn)
        seconds = settings.QUEUE_TIMEOUT / 1000
        in_time = asyncio.get_running_loop().call_later(seconds, self._give_up, turn)
        try:
            pipe: WritingPipe = pause()
        finally:
            in_time.cancel()
        return pipe

    def _give_up(self, turn: greenlet) -> None:
        if turn in self._waiting:
            self._waiting.remove(turn)
            turn.throw(OperationalError(QUEUED_TOO_LONG))


@cache
def writers(alias: str) -> Writers:
    """Return this process's connections for writes."""
    return Writers(alias)
