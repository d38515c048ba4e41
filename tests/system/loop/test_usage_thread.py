"""The thread that writes usage behind goes on, whatever befalls one of its rounds."""

import threading

import pytest
from django.db import connection

from accounts.usage import write_behind
from accounts.usage.write_behind import UsageRecorder
from tests.conftest import COMMITTED
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.turns import end_connection


@COMMITTED
@NEEDS_POSTGRESQL
def test_a_step_that_loses_its_connection_leaves_the_next_ones_another() -> None:
    done = []

    def lose() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            end_connection(*cursor.fetchone())
            cursor.execute("SELECT 1")

    def look() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            done.append(cursor.fetchone())

    write_behind.do(lose)
    write_behind.do(look)
    assert done == [(1,)]


def test_a_round_can_be_had_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_behind, "WRITE_EVERY", 3_600)
    monkeypatch.setattr(UsageRecorder, "write", lambda self: None)
    began = threading.Event()
    recorder = UsageRecorder()
    recorder.start(began.set)
    recorder.wake()
    assert began.wait(10)
    recorder.stop()
