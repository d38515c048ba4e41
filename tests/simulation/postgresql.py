"""A simulated PostgreSQL: sessions, transactions and prepared statements.

Its SQL is `BEGIN`, `COMMIT`, `ROLLBACK`, `READ $1`, `ADD $1`, `FAIL`, `LATE $1`, which fails when it is
committed, like a deferred constraint, `CANCEL $1`, after which a signal interrupts COMMIT before it runs,
`SAVEPOINT`, `RELEASE SAVEPOINT` and `ROLLBACK TO SAVEPOINT` for the latest savepoint, and `COUNT $1 $2`,
which counts a request of a group, and waits for the lock of the group.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from psycopg import pq

from petstore.db.monitor import Server
from tests.simulation.network import EOF, RESET, Network, Socket
from tests.simulation.world import World

ADDRESS = "postgresql"
ALIAS = "default"
SLOWEST_HANDSHAKE = 4.0  # Seconds.
LOCK_TIMEOUT = 0.25  # Seconds, of COUNT.
OK, ROWS, SYNC = pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.PIPELINE_SYNC
FAILED, ABORTED = pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.PIPELINE_ABORTED
IDLE, IN_TRANSACTION, IN_ERROR = (
    pq.TransactionStatus.IDLE,
    pq.TransactionStatus.INTRANS,
    pq.TransactionStatus.INERROR,
)


class Result:
    """A result like libpq's."""

    def __init__(
        self, status: Any, rows: Any = (), code: str = "", tag: bytes = b"", function: bytes = b""
    ) -> None:
        self.status = status
        self.rows = list(rows)
        self.ntuples = len(self.rows)
        self.command_status = tag
        self.transaction_status = IDLE  # Of a Sync.
        self._fields = {
            pq.DiagnosticField.SQLSTATE: code.encode() or None,
            pq.DiagnosticField.SOURCE_FUNCTION: function or None,
        }

    def error_field(self, field: Any) -> bytes | None:
        return self._fields.get(field)

    def get_error_message(self, encoding: str = "utf-8") -> str:
        return f"error {self._fields[pq.DiagnosticField.SQLSTATE]!r}"

    def __repr__(self) -> str:
        return f"{self.status.name}{self.rows}"


class PgSession:
    """A server process."""

    def __init__(self, server: SimulatedPostgresql, socket: Socket) -> None:
        self.server = server
        self.socket = socket
        self.is_standby = False
        self.must_replan = False
        self.prepared: dict[bytes, bytes] = {}
        self.status: Any = IDLE
        self.is_implicit = True
        self.staged: list[Any] = []
        self.savepoints: list[tuple[int, bool]] = []  # What was staged, and whether that was doomed.
        self.is_doomed = False  # COMMIT will fail.
        self._skips_messages = False  # Until the next Sync.
        self._is_canceled = False  # The next message fails.
        self._busy_until = 0.0  # While it waits for locks.
        server.sessions[socket.number] = self

    def received(self, parts: list[Any]) -> None:
        """Run the messages that have arrived."""
        for part in parts:
            results = self._run(*part)
            self.server.world.note("postgresql", self.socket.number, part, results)
            busy = self._busy_until - self.server.world.now
            self.socket.reply(results, max(busy, self.server.choose_duration()))

    def lost(self) -> None:
        """Roll back and end."""
        self.staged.clear()
        self.server.sessions.pop(self.socket.number, None)

    def _run(self, message: str, *arguments: Any) -> list[Result]:
        if message == "sync":
            return self._sync()
        if self._skips_messages:
            return [Result(ABORTED)]
        if self._is_canceled:
            result, self._is_canceled = Result(FAILED, code="57014"), False
        else:
            result = self._parse(*arguments) if message == "parse" else self._execute(message, *arguments)
        if result.status == FAILED:
            self._skips_messages = True
            self.status = IN_ERROR if not self.is_implicit else IDLE
        return [result]

    def _sync(self) -> list[Result]:
        found = []
        if self.is_implicit and not self._skips_messages and not self._commit():
            found.append(Result(FAILED, code="23503"))
        if self.is_implicit:
            self.staged.clear()
            self.is_doomed = False
        self._skips_messages = False
        ready = Result(SYNC)
        ready.transaction_status = self.status
        return [*found, ready]

    def _commit(self) -> bool:
        """Commit, and return whether that succeeded."""
        succeeds = not self.is_doomed
        if succeeds:
            self.server.committed.update(self.staged)
        self.staged.clear()
        self.is_doomed = False
        return succeeds

    def _parse(self, name: bytes, sql: bytes) -> Result:
        if name in self.prepared:
            return Result(FAILED, code="42P05")
        if sql == b"WRONG":
            return Result(FAILED, code="42601")
        self.prepared[name] = sql
        return Result(OK)

    def _execute(self, message: str, name: bytes, parameters: list[Any]) -> Result:
        sql = name if message == "query" else self.prepared.get(name)
        if sql is None:
            return Result(FAILED, code="26000")
        if self.status == IN_ERROR and not sql.startswith((b"COMMIT", b"ROLLBACK")):
            return Result(FAILED, code="25P02")
        if self.must_replan and message != "query" and sql.startswith(b"READ"):
            return Result(FAILED, code="0A000", function=b"RevalidateCachedQuery")
        if sql == b"BEGIN":
            self.status, self.is_implicit = IN_TRANSACTION, False
            return Result(OK, tag=b"BEGIN")
        if sql.startswith((b"COMMIT", b"ROLLBACK", b"SAVEPOINT", b"RELEASE")):
            return self._handle_savepoint(sql) if b"SAVEPOINT" in sql else self._end(sql)
        if sql in (b"FAIL", b"WRONG"):
            return Result(FAILED, code="22012" if sql == b"FAIL" else "42601")
        if sql.startswith(b"READ"):
            return Result(ROWS, [(parameters[0],)], tag=b"SELECT 1")
        if self.is_standby:
            return Result(FAILED, code="25006")
        if sql.startswith(b"COUNT") and not self._wait_for_lock(parameters[1]):
            return Result(FAILED, code="55P03")
        self.server.written_by[parameters[0]] = self.socket.number
        self.staged.append(parameters[0])
        self.is_doomed = self.is_doomed or sql.startswith((b"LATE", b"CANCEL"))
        self._is_canceled = sql.startswith(b"CANCEL") and not self.is_implicit
        return Result(ROWS, [(parameters[0],)], tag=b"INSERT 0 1")

    def _wait_for_lock(self, group: Any) -> bool:
        """Wait for the lock of a group, and return whether it was released in time."""
        start = max(self.server.world.now, self._busy_until)
        released = max(start, self.server.locked_until.get(group, 0.0))
        self._busy_until = min(released, start + LOCK_TIMEOUT)
        return released <= start + LOCK_TIMEOUT

    def _handle_savepoint(self, sql: bytes) -> Result:
        if sql.startswith(b"SAVEPOINT"):
            self.savepoints.append((len(self.staged), self.is_doomed))
        elif sql.startswith(b"ROLLBACK"):
            length, self.is_doomed = self.savepoints[-1]
            del self.staged[length:]
            self.status = IN_TRANSACTION
        else:
            self.savepoints.pop()
        return Result(OK, tag=sql.partition(b" ")[0])

    def _end(self, sql: bytes) -> Result:
        self.savepoints.clear()
        was_open, self.is_implicit = self.status == IN_TRANSACTION, True
        self.status = IDLE
        if sql == b"COMMIT" and was_open:
            return Result(OK, tag=b"COMMIT") if self._commit() else Result(FAILED, code="23503")
        self.staged.clear()
        self.is_doomed = False
        return Result(OK, tag=b"ROLLBACK")


class SimulatedPostgresql:
    """The server at the address."""

    def __init__(self, world: World, network: Network) -> None:
        self.world = world
        self.network = network
        self.committed: Counter[Any] = Counter()  # Survives failovers, as with synchronous replication.
        self.written_by: dict[Any, int] = {}  # The latest session, by what it wrote.
        self.locked_until: dict[Any, float] = {}  # By group.
        self.sessions: dict[int, PgSession] = {}
        self.monitored: Server | None = None
        self.slow = 0.0  # The probability of a slow statement.
        self.slowest = 0.2  # Seconds.
        self.slow_handshakes = 0.0  # The probability.
        network.listeners[ADDRESS] = self

    def accept(self, socket: Socket) -> PgSession:
        """Accept a connection."""
        return PgSession(self, socket)

    def choose_duration(self) -> float:
        """Choose the duration of a statement."""
        if self.slow and self.world.maybe(self.slow):
            return self.world.chance.uniform(0, self.slowest)
        return 0.0

    def choose_handshake_time(self) -> float:
        """Choose the time from connecting until statements can be sent."""
        if self.slow_handshakes and self.world.maybe(self.slow_handshakes):
            return self.world.chance.uniform(0, SLOWEST_HANDSHAKE)
        return 3 * self.network.latency()

    # --- Actions of the adversary ----------------------------------------------------------------

    def cut_some(self) -> None:
        """Terminate some connections."""
        for session in list(self.sessions.values()):
            if self.world.maybe(0.5):
                how = self.world.chance.choice((EOF, RESET))
                self.world.note("cut", session.socket.number, how)
                if self.world.maybe(0.3):
                    session.socket.reply([Result(FAILED, code="57P01")])
                session.socket.cut(how)

    def become_unavailable(self) -> None:
        """Be down or unreachable for a while, which the monitor may detect."""
        for session in list(self.sessions.values()):
            session.socket.cut(RESET)
        seconds = self.network.disconnect(ADDRESS)
        if self.monitored is not None and self.world.maybe(0.7):
            self.world.after(seconds / 2, self._detect_outage)
            self.world.after(seconds + 0.3, self._detect_recovery)

    def fail_over(self) -> None:
        """Promote another server; the old one keeps its connections but accepts no writes."""
        self.world.note("postgresql fails over")
        for session in self.sessions.values():
            session.is_standby = True
            if session.status == IN_TRANSACTION:
                session.status = IN_ERROR
                session.staged.clear()

    def end_standbys(self) -> None:
        """Terminate the connections to the former primary."""
        for session in list(self.sessions.values()):
            if session.is_standby:
                session.socket.cut(EOF)

    def freeze(self) -> None:
        """Deliver nothing on the open connections for a while."""
        until = self.world.now + self.world.chance.uniform(0.05, self.world.chance.choice((4.0, 60.0)))
        self.world.note("postgresql connections freeze until", until)
        for session in self.sessions.values():
            session.socket.frozen_until = until

    def deallocate(self) -> None:
        """Deallocate prepared statements, like a pooler that changes servers."""
        self.world.note("postgresql deallocates prepared statements")
        for session in self.sessions.values():
            if session.status == IDLE:
                session.prepared.clear()

    def alter(self) -> None:
        """Alter a table that prepared statements read."""
        self.world.note("postgresql alters a table")
        for session in self.sessions.values():
            session.must_replan = True

    def lock(self, group: Any, seconds: float) -> None:
        """Let another client hold the lock of a group."""
        self.locked_until[group] = self.world.now + seconds
        self.world.note("locks", group, self.locked_until[group])

    def _detect_outage(self) -> None:
        if self.monitored is not None and not self.monitored.unavailable:
            self.monitored.unavailable = True
            self.monitored.generation += 1

    def _detect_recovery(self) -> None:
        if self.monitored is not None:
            self.monitored.unavailable = False
