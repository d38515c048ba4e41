"""A connection on which each statement is a transaction, and those that are sent together share a Sync.

With a Sync for each, PostgreSQL would send each reply on its own and wake the process for it.
"""

from typing import Any

from psycopg import pq

from petstore.db.event_loop.connection import SUCCESS, PostgresqlConnection
from petstore.db.event_loop.errors import NotExecutedError
from petstore.db.event_loop.libpq import Parameters, Statement, Types

MESSAGES = 3  # BEGIN, the statement or its preparation, and COMMIT.
IN_FAILED_SQL_TRANSACTION = b"25P02"  # An SQLSTATE code.


class TransactionPipeline(PostgresqlConnection):
    """Sends each statement between BEGIN and COMMIT, unless it is isolated.

    A failed statement leaves its transaction open until the ROLLBACK that follows. What was sent in between
    was not executed, may be repeated, and is followed by another ROLLBACK, in case the first one failed.
    """

    def check_result(self, statement: Statement, result: Any) -> None:
        if result.error_field(pq.DiagnosticField.SQLSTATE) == IN_FAILED_SQL_TRANSACTION:
            raise NotExecutedError("An earlier transaction failed and is still open.")
        if result.command_status == b"ROLLBACK":  # What COMMIT returns for a transaction that has failed.
            raise NotExecutedError("The transaction was rolled back.")
        super().check_result(statement, result)

    def _prepare(self, statement: Statement, types: Types) -> None:
        self._put_unprepared(b"BEGIN", [], [])
        super()._prepare(statement, types)
        self._put_unprepared(b"COMMIT", [], [])

    def _put(self, statement: Statement, types: Types, parameters: Parameters) -> None:
        self._put_unprepared(b"BEGIN", [], [])
        super()._put(statement, types, parameters)
        self._put_unprepared(b"COMMIT", [], [])

    def _put_rollback(self) -> None:
        self._end_batch()
        self._put_unprepared(b"ROLLBACK", [], [])
        self._end_batch()

    def _deliver(self, results: list[Any]) -> None:
        if len(results) == 1:  # An isolated statement or a ROLLBACK.
            self._resolve_next(results[0])
            return
        transactions = list(zip(*[iter(results)] * MESSAGES, strict=True))
        if self.error is None and any(commit.command_status != b"COMMIT" for _, _, commit in transactions):
            self._enqueue(None, self._put_rollback)  # Before what is repeated.
            self._send_soon()
        for begin, result, commit in transactions:
            if commit.command_status == b"COMMIT":
                self._resolve_next(result)
            else:
                failures = (one for one in (begin, result) if one.status not in SUCCESS)
                self._resolve_next(next(failures, commit))
