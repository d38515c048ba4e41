"""The load tools measure what they say: their arithmetic, their client and their journal."""

import math
import socket
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.load import faults
from tests.system.load.client import Client, NotHttpError, Phase, Request, read_answer
from tests.system.load.record import (
    Failure,
    Record,
    Row,
    growth,
    percentile,
    recovery_seconds,
    settled_seconds,
)
from tests.system.load.shop import CANCEL, NOTHING, Shop

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
SCRIPTS = {
    "well": OK,
    "in pieces": OK,
    "shed": b"HTTP/1.1 503 Busy\r\nRETRY-AFTER: 2\r\nContent-Length: 0\r\n\r\n",
    "broken": b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
    "wrong": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "garbled": b"SSH-2.0-OpenSSH\r\n\r\n",
    "gone": b"",
    "cut": OK[:-1],
}


class Script:
    """A server that gives every request one answer, and the workload that asks it."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.port = self.listener.getsockname()[1]
        self.held: list[socket.socket] = []
        self.answers: list[int] = []
        self.unknown = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        """Serve each connection in a thread, until the listener is closed."""
        try:
            while True:
                connection = self.listener.accept()[0]
                self.held.append(connection)
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()
        except OSError:
            return

    def serve(self, connection: socket.socket) -> None:
        """Answer as the script says."""
        try:
            while connection.recv(10_000):
                if self.how == "silent":
                    continue
                answer = SCRIPTS[self.how]
                for piece in (
                    (answer[:9], answer[9:30], answer[30:]) if self.how == "in pieces" else (answer,)
                ):
                    connection.sendall(piece)
                if self.how in ("gone", "cut"):
                    connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def request(self) -> Request:
        """Return the one request."""
        return Request(0, b"GET / HTTP/1.1\r\n\r\n")

    def answered(self, request: Request, status: int, body: bytes) -> None:
        """Note an answer."""
        self.answers.append(status)

    def failed(self, request: Request) -> None:
        """Note that there is none."""
        self.unknown += 1

    def close(self) -> None:
        """Close what is open."""
        self.listener.close()
        for one in self.held:
            one.close()


@pytest.fixture
def script(request: pytest.FixtureRequest) -> Iterator[Script]:
    made = Script(request.param)
    yield made
    made.close()


def offer(script: Script, rate: float | None, connections: int = 50, patience: float = 30) -> Record:
    return Client(script.port, script, patience=patience).run([Phase(0.2, rate, connections)])


# --- The client ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("shed", "503 with Retry-After"),
        ("broken", "503"),
        ("wrong", "404"),
        ("garbled", "not HTTP"),
        ("gone", "connection lost"),
        ("cut", "connection lost"),
        ("silent", "no answer in time"),
    ],
    indirect=["script"],
)
def test_every_way_to_fail_has_its_own_name(script: Script, kind: str) -> None:
    record = offer(script, rate=50, patience=0.3 if kind == "no answer in time" else 30)
    assert record.kinds() == {kind: len(record)}
    assert record.good() == 0
    assert len(script.answers) + script.unknown == len(record)
    assert record.errors() == (len(record) if kind == "503" else 0)


@pytest.mark.parametrize("script", ["well", "in pieces"], indirect=True)
def test_open_loop_sends_as_many_as_the_rate_says(script: Script) -> None:
    record = offer(script, rate=500)
    assert len(record) == 100
    assert record.good() == len(record) == len(script.answers)
    first, *others = sorted(record.due)
    assert others == pytest.approx([first + number / 500 for number in range(1, 100)])


@pytest.mark.parametrize("script", ["silent"], indirect=True)
def test_a_time_counts_from_when_the_request_was_due(script: Script) -> None:
    assert min(offer(script, rate=20, patience=0.5).took) >= 0.3


@pytest.mark.parametrize("script", ["well"], indirect=True)
def test_refused_connections_are_told_from_lost_ones(script: Script) -> None:
    script.listener.close()
    with socket.create_server(("127.0.0.1", 0)) as once:
        script.port = once.getsockname()[1]
    record = offer(script, rate=100)
    assert record.kinds() == {"connection refused": len(record)}


def test_answer_is_read_once_it_is_whole() -> None:
    for end in range(len(OK)):
        assert read_answer(OK[:end]) is None
    answer = read_answer(OK)
    assert answer is not None
    assert (answer.status, answer.body) == (200, b"{}")
    nothing = read_answer(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert nothing is not None
    assert nothing.status == 204


@pytest.mark.parametrize("bad", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 abc\r\nContent-Length: 0\r\n\r\n"])
def test_answer_that_is_not_understood_is_said_to_be(bad: bytes) -> None:
    with pytest.raises(NotHttpError):
        read_answer(bad)


# --- The arithmetic ------------------------------------------------------------------------------


def test_percentile_is_the_nearest_rank() -> None:
    hundred = [float(n) for n in range(1, 101)]
    assert [percentile(hundred, share) for share in (0, 0.5, 0.99, 0.991, 1)] == [1, 50, 99, 100, 100]
    assert percentile([7.0], 0.5) == 7
    assert math.isnan(percentile([], 0.5))


def test_growth_is_what_lasts() -> None:
    assert growth(range(100, 190)) == 60
    assert growth([100] * 45 + [110] * 45) == 10
    assert growth([100] * 40 + [110] * 10 + [100] * 40) == 0


def test_recovery_ends_with_the_last_failure() -> None:
    def record(*bad: Row) -> Record:
        return Record([*(Row(due / 10, 0.01, 0, 200) for due in range(150)), *bad])

    assert recovery_seconds(record(), 5) == 0
    assert recovery_seconds(record(Row(4, 0, 0, 503)), 5) == 0
    assert recovery_seconds(record(Row(6, 0, 0, 503), Row(7.5, 0, 0, Failure.LOST)), 5) == 2.5


def test_service_has_settled_when_a_second_was_undisturbed() -> None:
    def record(*bad: Row) -> Record:
        return Record([*(Row(due / 10, 0.01, 0, 200) for due in range(150)), *bad])

    def late(due: float) -> Row:
        return Row(due, 0.2, 0, 200)

    assert settled_seconds(record(late(4)), 5, slow=0.1) == 0
    assert settled_seconds(record(late(6.2), late(5.5), late(9)), 5, slow=0.1) == pytest.approx(1.2)
    assert settled_seconds(record(late(6.5), Row(5.5, 0, 0, 503)), 5, slow=1) == 0.5
    assert settled_seconds(record(*(late(5 + half / 2) for half in range(20))), 5, slow=0.1) is None


def test_recovery_is_unknown_while_requests_fail_to_the_end() -> None:
    assert recovery_seconds(Record([Row(9, 0, 0, 200), Row(9.5, 0, 0, 503), Row(10, 0, 0, 200)]), 5) is None


# --- The journal ---------------------------------------------------------------------------------


@pytest.fixture
def shop() -> Shop:
    """A shop of ten pets, of which 1, 3, 5, 6, 8 and 10 are available."""
    return Shop(["key0", "key1"], pets=10)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "journal.sqlite3", isolation_level=None)
    connection.execute("CREATE TABLE inventory_pet (id, name, status)")
    connection.execute("CREATE TABLE inventory_order (id, pet_id, status)")
    yield connection
    connection.close()


def acknowledge(shop: Shop, request: Request, number: int) -> None:
    shop.answered(request, 204 if request.operation == CANCEL else 201, f'{{"id": {number}}}'.encode())


def test_order_is_looked_at_and_cancelled_by_the_key_that_placed_it(shop: Shop) -> None:
    place = shop.place()
    acknowledge(shop, place, 71)
    look, cancel = shop.look(), shop.cancel()
    key = place.text.split(b"Bearer ")[1].split(b"\r\n")[0]
    assert look.text.startswith(b"GET /v1/store/orders/71 ")
    assert cancel.text.startswith(b"DELETE /v1/store/orders/71 ")
    assert look.text.count(key) == cancel.text.count(key) == 1


def test_pet_is_ordered_again_only_after_its_order_was_cancelled(shop: Shop) -> None:
    pets = [shop.place().about[0] for _ in range(6)]
    assert pets == [1, 3, 5, 6, 8, 10]
    assert not shop.free
    shop.answered(Request(CANCEL, b"", (71, 3, 0)), 503, b"")
    assert not shop.free
    shop.answered(Request(CANCEL, b"", (71, 3, 0)), 204, b"")
    assert shop.place().about[0] == 3


def test_journal_finds_everything_where_it_was_acknowledged(
    shop: Shop, database: sqlite3.Connection, tmp_path: Path
) -> None:
    create, place, again = shop.create(), shop.place(), shop.place()
    acknowledge(shop, create, 11)
    acknowledge(shop, place, 71)
    acknowledge(shop, again, 72)
    acknowledge(shop, shop.cancel(), 71)
    shop.failed(shop.cancel())  # Whether order 72 was cancelled, nobody knows.
    name = f"Load {shop.run} 1"
    pets = [(11, name, "available"), (1, "Pet", "available"), (3, "Pet", "pending")]
    database.executemany("INSERT INTO inventory_pet VALUES (?, ?, ?)", pets)
    database.executemany(
        "INSERT INTO inventory_order VALUES (?, ?, ?)", [(71, 1, "cancelled"), (72, 3, "placed")]
    )
    found = shop.check(f"sqlite:///{tmp_path / 'journal.sqlite3'}")
    assert found == NOTHING._replace(acknowledged=3)


def test_journal_finds_what_is_lost_or_doubled(
    shop: Shop, database: sqlite3.Connection, tmp_path: Path
) -> None:
    for number in (11, 12):
        acknowledge(shop, shop.create(), number)
    for number in (71, 72, 73, 74):
        acknowledge(shop, shop.place(), number)
    shop.create()  # Never answered, but there.
    names = [f"Load {shop.run} {number}" for number in (1, 2, 3)]
    pets = [(11, names[0], "available"), (13, names[0], "available"), (14, names[2], "available")]
    pets += [(1, "Pet", "available"), (3, "Pet", "pending"), (6, "Pet", "pending")]
    database.executemany("INSERT INTO inventory_pet VALUES (?, ?, ?)", pets)
    orders = [(71, 1, "placed"), (72, 3, "cancelled"), (74, 6, "placed"), (75, 6, "cancelled")]
    database.executemany("INSERT INTO inventory_order VALUES (?, ?, ?)", orders)
    found = shop.check(f"sqlite:///{tmp_path / 'journal.sqlite3'}")
    assert found.lost == {
        "pet 12",
        "order 71: its pet is available",
        "order 72: placed, the database says cancelled",
        "order 73: placed, the database says missing",
    }
    assert found.doubled == {f"pet {names[0]}", "orders of pet 6"}
    assert (found.acknowledged, found.unacknowledged) == (6, 1)
    assert found.since(found) == NOTHING


# --- The goals -----------------------------------------------------------------------------------


def result(outcome: int, took: float = 0.1, recovered: float | None = 0) -> faults.Result:
    """A fault from second 1 to 2, with a request under way at its beginning and one in its middle."""
    record = Record([Row(0.95, took, 0, outcome), Row(1.5, took, 0, outcome), Row(9, 0.1, 0, 200)])
    return faults.Result(faults.Moments(1, 2), record, NOTHING, recovered)


def missed(name: str, of: faults.Result) -> set[str]:
    reached = faults.goals(faults.FAULTS[name], of)
    return {goal.partition(": ")[2] for goal, was in reached.items() if not was}


@pytest.mark.parametrize("name", faults.FAULTS)
def test_goals_are_reached_by_what_fails_nothing(name: str) -> None:
    assert missed(name, result(200)) == set()


def test_goals_are_missed_by_what_may_not_happen() -> None:
    assert missed("worker", result(500)) == {"no other 5xx than 503 with Retry-After"}
    assert missed("worker", result(200, recovered=5.1)) == {"recovered within 5 s"}
    assert missed("worker", result(200, recovered=None)) == {"recovered within 5 s"}
    assert missed("worker", result(Failure.LOST)) == set()
    assert missed("redis", result(Failure.SHED)) == {"no request failed"}
    assert missed("fast", result(Failure.SHED, took=2.1)) == {"refused within 2 s"}
    assert missed("fast", result(Failure.LOST)) == {"nothing failed otherwise than by 503"}
    assert missed("terminate", result(Failure.LOST)) == {"what was under way was answered"}
    lost = result(200)._replace(findings=NOTHING._replace(lost={"pet 1"}))
    assert missed("disk", lost) == {"no acknowledged write lost or doubled"}
