"""Writes on the event loop: a few connections, each with one transaction at a time."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import count
from typing import Any

from django.conf import settings
from django.db import OperationalError

from petstore.db.monitor import is_unavailable
from petstore.event_loop.connection import LostError, PipeError, within
from petstore.event_loop.greenlets import QUEUED_TOO_LONG, TICK, Alarm, Turn, pause, this_turn
from petstore.event_loop.libpq import Statement, Value
from petstore.event_loop.opening import CONNECTING, opening_limit
from petstore.event_loop.pg_connection import (
    ATTEMPTS,
    DONE,
    NotDoneError,
    PostgresqlConnection,
    Rows,
    as_django,
)
from petstore.event_loop.shared_connection import PAUSE_AFTER_FAILURE

OPENED_AT_ONCE = CONNECTING - 1  # One thread is left for the connection that reads.

BEGIN = Statement(b"begin", b"BEGIN")
COMMIT = Statement(b"commit", b"COMMIT")
ROLLED_BACK = "The transaction was rolled back."


class Transaction:
    """What one request does between BEGIN and COMMIT. Raises PipeErrors, and what Django raises.

    Every statement that somebody waits for costs a turn of the loop, in which others can't use the
    connection. What nobody needs the result of is therefore sent with what comes next, at the latest with
    COMMIT. In the connection's queue it stands for the request, which does not wait for what is sent.
    """

    def __init__(self, connection: PostgresqlConnection) -> None:
        """Begin, on a connection that nobody else uses meanwhile."""
        self._connection = connection
        self.doomed = False  # A part of it was left by an exception: it must not commit.
        self._unheard: deque[Statement] = deque()  # What was sent, and has no result yet.
        self._failure: tuple[Statement, Any] | None = None  # The first of these that failed.
        self.send(BEGIN)

    def rows(self, statement: Statement, values: Sequence[Value]) -> Rows:
        return self._connection.loaded(statement, self._run(statement, values))

    def send(self, statement: Statement, values: Sequence[Value] = ()) -> None:
        """Ask without waiting: what is asked next raises what this should have raised."""
        if self._connection.knows(statement):
            self._connection.send(self, statement, values)
            self._unheard.append(statement)
        else:
            self._run(statement, values)

    def switch(self, result: Any) -> None:
        """Take the result of what was sent; keep a failure."""
        statement = self._unheard.popleft()
        if result.status not in DONE and self._failure is None:
            self._failure = statement, result

    def throw(self, error: PipeError) -> None:
        """Hear that the connection is lost, as whoever waits for the next statement does."""

    def commit(self) -> None:
        """Make it last. Raises OperationalError if it was undone."""
        if self.doomed:
            raise OperationalError(ROLLED_BACK)
        # PostgreSQL ends a transaction in which something failed with ROLLBACK, and calls that success.
        if self._run(COMMIT).command_status != b"COMMIT":
            raise OperationalError(ROLLED_BACK)

    def roll_back(self) -> None:
        """End it, or the connection. What was sent and fails takes one ROLLBACK along, not two."""
        with suppress(PipeError):
            if self._connection.owes_answers:
                raise PipeError("Nobody knows when the last statement ends.")
            for _ in range(2):
                if self._connection.unprepared(b"ROLLBACK").status in DONE:
                    return
        self._connection.close()

    def _run(self, statement: Statement, values: Sequence[Value] = ()) -> Any:
        result = self._connection.result(statement, values)
        if self._failure is not None:
            (statement, result), self._failure = self._failure, None
        try:
            self._connection.check(statement, result)
        except NotDoneError as error:
            self._connection.forget(statement)
            raise LostError(ROLLED_BACK) from error
        return result


class Writers:
    """Every write is a transaction, unless it is in one.

    A connection is idle, or lent to one request, or lost. Where the server takes no more connections, those
    that are open serve all.
    """

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._open: list[PostgresqlConnection] = []  # Those that are lost go when one more is wanted.
        self._idle: list[PostgresqlConnection] = []  # The one that was used last is taken first.
        self._opening: set[asyncio.Task[None]] = set()
        self._failed_at = float("-inf")
        self._again: asyncio.TimerHandle | None = None  # When those who wait are attended to again.
        self._waiting: deque[Turn] = deque()

    def rows(self, statement: Statement, values: Sequence[Value]) -> Rows:
        """Return a statement's rows. Raises what Django raises for a query."""
        held: Transaction | None = this_turn().transaction
        for attempt in count(1):
            try:
                if held is not None:
                    return held.rows(statement, values)
                with self._one() as connection:
                    return connection.rows(statement, values)
            except PipeError as error:
                if held is not None or attempt == ATTEMPTS or not isinstance(error, NotDoneError):
                    raise as_django(self._alias, error) from error
        raise AssertionError  # The last attempt raises.

    def send(self, statement: Statement, values: Sequence[Value]) -> None:
        """Ask without waiting, in a transaction: what is asked next raises what this should have raised."""
        held: Transaction | None = this_turn().transaction
        assert held is not None
        try:
            held.send(statement, values)
        except PipeError as error:
            raise as_django(self._alias, error) from error

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
        try:
            with self._one() as connection:
                transaction = turn.transaction = Transaction(connection)
                try:
                    yield
                    transaction.commit()
                except BaseException:
                    transaction.roll_back()
                    raise
                finally:
                    turn.transaction = None
        except PipeError as error:
            raise as_django(self._alias, error) from error

    @contextmanager
    def _one(self) -> Iterator[PostgresqlConnection]:
        """Lend a connection: nobody else uses it meanwhile."""
        connection = self._take()
        try:
            yield connection
        finally:
            self._give(connection)

    def _take(self) -> PostgresqlConnection:
        """Return a connection, open when this was last looked at."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + settings.QUEUE_TIMEOUT / 1000
        while True:
            connection = self._next_idle() or self._wait_for_one(ends - loop.time())
            if connection.is_of_use:
                return connection
            connection.close()

    def _give(self, connection: PostgresqlConnection) -> None:
        if connection.error is not None and not isinstance(connection.error, LostError):
            for other in self._idle:  # It did not answer, or takes no writes: nor may they.
                other.close()
        elif not connection.is_idle:
            connection.close()
        self._idle.append(connection)
        if self._waiting:
            self._attend()

    def _next_idle(self) -> PostgresqlConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_of_use:
                return connection
            connection.close()
        return None

    def _wait_for_one(self, seconds: float) -> PostgresqlConnection:
        """Wait in the queue. Raises OperationalError after that long, PipeError if none can be had."""
        turn = this_turn()
        self._waiting.append(turn)
        in_time = Alarm(seconds, partial(self._give_up, turn))
        self._attend()
        try:
            connection: PostgresqlConnection = pause()
        finally:
            in_time.cancel()
        return connection

    def _give_up(self, turn: Turn) -> None:
        if turn in self._waiting:
            self._waiting.remove(turn)
            turn.throw(OperationalError(QUEUED_TOO_LONG))

    def _attend(self) -> None:
        """Serve who waits: with a connection that is idle, with one more, or with why there is none."""
        loop = asyncio.get_running_loop()
        while self._waiting and (connection := self._next_idle()) is not None:
            loop.call_soon(self._waiting.popleft().switch, connection)
        pause_ends = self._failed_at + PAUSE_AFTER_FAILURE
        if loop.time() < pause_ends or is_unavailable(self._alias):
            if not self._serves():
                self._refuse("The last attempt to connect has just failed.")
            elif self._waiting and self._again is None:
                self._again = loop.call_at(max(pause_ends, loop.time() + TICK), self._attend_again)
            return
        self._open = [connection for connection in self._open if connection.error is None]
        wanted = min(len(self._waiting), OPENED_AT_ONCE) - len(self._opening)
        room = settings.WRITE_CONNECTIONS - len(self._open) - len(self._opening)
        for _ in range(min(wanted, room)):
            task = loop.create_task(self._open_one())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    def _attend_again(self) -> None:
        self._again = None
        self._attend()

    async def _open_one(self) -> None:
        """Open one more, for whoever has waited longest."""
        task = asyncio.current_task()
        assert task is not None
        try:
            opened = PostgresqlConnection.open(self._alias, shared=False)
            connection = await within(opening_limit(self._alias), opened)
        except Exception as error:  # noqa: BLE001  Whatever it is, those who wait are told.
            self._opening.discard(task)
            self._failed_at = asyncio.get_running_loop().time()
            if not self._serves():
                self._refuse(f"{type(error).__name__}: {error}")
            self._attend()
        else:
            self._opening.discard(task)
            self._open.append(connection)
            self._give(connection)

    def _serves(self) -> bool:
        return bool(self._opening) or any(connection.error is None for connection in self._open)

    def _refuse(self, reason: str) -> None:
        while self._waiting:
            asyncio.get_running_loop().call_soon(self._waiting.popleft().throw, PipeError(reason))


@cache
def writers(alias: str) -> Writers:
    return Writers(alias)
