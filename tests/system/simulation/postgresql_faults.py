"""Faults of the way to PostgreSQL, each taken into the engine for the length of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from psycopg import pq

from petstore.loop import connecting, postgresql, writers
from petstore.loop.connection import Connection, PipeError
from petstore.loop.postgresql import PostgresqlConnection
from petstore.loop.transaction import COMMIT, Transaction
from petstore.loop.writers import Writers

Planted = Iterator[None]


def nothing(*_: object) -> None:
    """Do nothing."""


def commit_unheard(self: Transaction) -> None:
    """Send COMMIT, and take it for granted."""
    self.send(COMMIT)


@contextmanager
def unheard_commit() -> Planted:
    """A commit is acknowledged before the server has said so."""
    with mock.patch.object(Transaction, "commit", commit_unheard):
        yield


@contextmanager
def commit_that_rolled_back() -> Planted:
    """What the server answered to COMMIT is not read: it may have rolled back."""
    with mock.patch.object(Transaction, "commit", lambda self: self._run(COMMIT)):
        yield


@contextmanager
def open_transactions_in_the_pool() -> Planted:
    """A transaction that failed is left open, and its connection lent again."""
    with (
        mock.patch.object(Transaction, "roll_back", nothing),
        mock.patch.object(PostgresqlConnection, "is_idle", new=True),
    ):
        yield


@contextmanager
def repeated_writes() -> Planted:
    """A write whose answer was lost is sent again."""
    with mock.patch.object(writers, "NotDoneError", PipeError):
        yield


@contextmanager
def lent_twice() -> Planted:
    """A connection is lent while somebody has it."""

    def next_idle(self: Writers) -> PostgresqlConnection | None:
        return next((one for one in self._idle if one.is_of_use), None)

    with mock.patch.object(Writers, "_next_idle", next_idle):
        yield


@contextmanager
def results_before_the_sync() -> Planted:
    """A write is called done before the Sync that commits it, which may still fail."""

    def deliver(self: PostgresqlConnection) -> None:
        found, self._results = self._results, []
        for _ in range(self._sizes.popleft() if self._sizes else 0):
            self._answer(found.pop(0))

    with mock.patch.object(PostgresqlConnection, "_deliver", deliver):
        yield


@contextmanager
def shifted_by_a_failure() -> Planted:
    """Who hears of a failure leaves a place in the row."""

    def answer(self: Connection, reply: Any) -> None:
        if getattr(reply, "status", None) == pq.ExecStatus.FATAL_ERROR:
            waiter, _ = self._row[0]
            if waiter is not None:
                waiter.switch(reply)
        else:
            real(self, reply)

    real = Connection._answer
    with mock.patch.object(Connection, "_answer", answer):
        yield


@contextmanager
def forgotten_by_another() -> Planted:
    """Who hears late that a statement is not prepared prepares it again, though another has done so."""
    forget, rows = PostgresqlConnection.forget, PostgresqlConnection.rows

    def forget_any(self: PostgresqlConnection, statement: Any, preparation: Any = None) -> None:
        forget(self, statement)

    def rows_together(
        self: PostgresqlConnection, statement: Any, values: Any, *, alone: bool = False
    ) -> Any:
        return rows(self, statement, values)

    with (
        mock.patch.object(PostgresqlConnection, "forget", forget_any),
        mock.patch.object(PostgresqlConnection, "rows", rows_together),
        mock.patch.object(postgresql, "PREPARED_TWICE", b""),
    ):
        yield


@contextmanager
def taken_along_again() -> Planted:
    """What another's failure took along is asked again in a batch with others."""
    real = PostgresqlConnection.rows

    def rows(self: PostgresqlConnection, statement: Any, values: Any, *, alone: bool = False) -> Any:
        return real(self, statement, values)

    with mock.patch.object(PostgresqlConnection, "rows", rows):
        yield


@contextmanager
def no_connection_is_closed() -> Planted:
    """A connection that comes after its time is left open."""
    with mock.patch.object(connecting, "close_unclaimed", nothing):
        yield
