"""A Django cache backend with exact counters that all processes of a machine share.

Django's backends that need no server either belong to one process or don't increment atomically. The
database can't be used, because malformed keys must be rejected during its outages as well (D16). A
small SQLite file stores the counters. It may be deleted while the service is stopped.
"""

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ParamSpec, TypeVar

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache

from petstore.event_loop.threads import run_in_thread

P = ParamSpec("P")
Result = TypeVar("Result")

SCHEMA = """
CREATE TABLE counter (
    name TEXT PRIMARY KEY, value INTEGER NOT NULL, expires REAL NOT NULL
) WITHOUT ROWID
"""
CLEANUP_INTERVAL = 1000  # Number of new counters after which expired ones are deleted.


def blocking(function: Callable[P, Result]) -> Callable[P, Result]:
    """Run the decorated function with `run_in_thread`."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Result:
        return run_in_thread(function, *args, **kwargs)

    return wrapper


class ThreadConnection:
    """A thread's connection, closed when the thread ends.

    A `sqlite3.Connection` is part of a reference cycle, so by itself it would stay open until the garbage
    collector runs.
    """

    def __init__(self, file: Path) -> None:
        # The last reference may be dropped by another thread.
        self.connection = sqlite3.connect(file, timeout=2, isolation_level=None, check_same_thread=False)
        # The counters need not survive a power failure.
        self.connection.execute("PRAGMA synchronous=OFF")

    def __del__(self) -> None:
        self.connection.close()


class LocalCounters(BaseCache):
    """Counters that expire. `LOCATION` is the folder of their file."""

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._file = Path(location) / "counters.sqlite3"
        self._local = threading.local()
        self._added = 0

    @property
    def _connection(self) -> sqlite3.Connection:
        own: ThreadConnection | None = getattr(self._local, "own", None)
        if own is None:
            if not self._file.exists():
                self._create_file()
            own = self._local.own = ThreadConnection(self._file)
        return own.connection

    def _create_file(self) -> None:
        """Create the file unless it exists.

        It is created under a temporary path and then linked. If two processes switched the same file to
        WAL at once, one of them would fail, because SQLite does not wait for locks in this case.
        """
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=self._file.parent) as folder:
                new_file = Path(folder) / self._file.name
                with closing(sqlite3.connect(new_file)) as connection:
                    connection.execute("PRAGMA journal_mode=WAL")
                    connection.execute(SCHEMA)
                with suppress(FileExistsError):
                    self._file.hardlink_to(new_file)
        except OSError as error:  # Callers should have to catch only one type of exception.
            raise sqlite3.OperationalError(
                f"The file for counters could not be created: {error}"
            ) from error

    def _get_expiry(self, timeout: float | None) -> float:
        seconds = self.get_backend_timeout(timeout)
        return float("inf") if seconds is None else seconds

    @blocking
    def add(
        self, key: str, value: int, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        added = self._connection.execute(
            "INSERT INTO counter VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET value = excluded.value, expires = excluded.expires WHERE expires <= ?",
            (self.make_key(key, version), int(value), self._get_expiry(timeout), time.time()),
        ).rowcount
        self._added += added
        if self._added >= CLEANUP_INTERVAL:
            self._added = 0
            self._connection.execute("DELETE FROM counter WHERE expires <= ?", (time.time(),))
        return bool(added)

    @blocking
    def set(
        self, key: str, value: int, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None
    ) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO counter VALUES (?, ?, ?)",
            (self.make_key(key, version), int(value), self._get_expiry(timeout)),
        )

    @blocking
    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        row = self._connection.execute(
            "SELECT value FROM counter WHERE name = ? AND expires > ?",
            (self.make_key(key, version), time.time()),
        ).fetchone()
        return row[0] if row else default

    @blocking
    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        """Increment atomically. Raises ValueError if the counter does not exist, like Django's caches."""
        row = self._connection.execute(
            "UPDATE counter SET value = value + ? WHERE name = ? AND expires > ? RETURNING value",
            (delta, self.make_key(key, version), time.time()),
        ).fetchone()
        if row is None:
            raise ValueError(f"Counter {key!r} not found.")
        return int(row[0])

    @blocking
    def delete(self, key: str, version: int | None = None) -> bool:
        name = self.make_key(key, version)
        statement = "DELETE FROM counter WHERE name = ? AND expires > ?"
        return bool(self._connection.execute(statement, (name, time.time())).rowcount)

    @blocking
    def clear(self) -> None:
        self._connection.execute("DELETE FROM counter")
