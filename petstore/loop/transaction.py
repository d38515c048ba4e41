"""A transaction on the event loop: it has a connection of PostgreSQL to itself, and no other one ever.

Every statement that somebody waits for costs a turn of the loop, in which others can't use the connection.
What nobody needs the result of is therefore sent with what comes next, at the latest with COMMIT.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from django.db import OperationalError

from petstore.loop.connection import LostError, PipeError
from petstore.loop.libpq import Statement, Value
from petstore.loop.postgresql import DONE, NotDoneError, PostgresqlConnection, Rows

BEGIN = Statement(b"begin", b"BEGIN")
COMMIT = Statement(b"commit", b"COMMIT")
ROLLED_BACK = "The transaction was rolled back."


class Transaction:
    """What one request does between BEGIN and COMMIT. Raises PipeErrors, and what Django raises.

    In the connection's queue it stands for the request, which does not wait for what is sent.
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
