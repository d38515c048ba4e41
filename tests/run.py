"""Runs the tests: what `make test` and `make quick` call.

    python -m tests.run [--quick] [OPTION OF PYTEST ...]

On SQLite, this runs the single-process tests, and those system tests that depend on the database; on
PostgreSQL, the system tests and those that use a database. `--quick` runs the single-process tests on
SQLite, and the event loop's tests without tables if a PostgreSQL is running.

Requests to the API run on both databases, since the contract must hold on each. So do pages and commands
with raw SQL, locks or limits. The others (`same_on_both`) run on SQLite, and on PostgreSQL as well
in CI or with THOROUGH=1: public pages, and pages and commands that use only Django's ORM, which API and
browser tests cover on PostgreSQL.

The server is that of DATABASE_URL, or a new one if its programs are installed, or a running local one.
Without one, the system tests run on SQLite, but fail in CI (`CI=true`), where a skip would go unnoticed.

Each core runs one process. Files are not split between processes, since the tests of a file share services.
tests/conftest.py orders them. Databases are migrated once, and copied (tests/support/migrated.py).
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests import environment  # noqa: F401  It sets the environment variables.
from tests.support import servers
from tests.support.migrated import migrated_file, migrated_server
from tests.support.postgresql import postgresql_server, programs
from tests.support.preloaded import preloaded
from tests.support.thorough import THOROUGH

# A new server holds the connections of many services at once, and need not survive a crash.
SERVER_OPTIONS = ("max_connections=300", "fsync=off", "autovacuum=off")
ON_SQLITE = "not system or each_database"
if os.environ.get("TESTED_ON_SQLITE"):  # The single-process tests, by another Python (.ci/run).
    ON_SQLITE = "each_database or not (system or database)"
ON_POSTGRESQL = "system or database" if THOROUGH else "system or (database and not same_on_both)"
SYSTEM = ("system", "chaos", "load", "simulation")  # Folders, as in tests/conftest.py.
EVENT_LOOP = "tests/system/event_loop/test_event_loop.py"
MEMORY_FOLDER = Path("/dev/shm")  # Linux's file system in memory.
MEMORY_BYTES = 4 * 1024**3
# Those that this process may use; macOS has no affinity.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MAX_PROCESSES = 4  # Concurrent test processes; more would overload PostgreSQL.


def run(name: str, tests: str, arguments: list[str], processes: int = CORES, **variables: str) -> int:
    """Run pytest on the tests that a marker expression selects; return the exit status."""
    print(f"\n=== Tests on {name} ===", flush=True)
    shared = ["-n", str(min(processes, MAX_PROCESSES)), "--dist", "loadfile", "--no-loadscope-reorder"]
    command = [sys.executable, "-m", "pytest", *shared, "-m", tests, *arguments]
    return subprocess.run(command, env=os.environ | variables, check=False).returncode


def run_on_sqlite(name: str, tests: str, arguments: list[str]) -> int:
    """Run pytest on copies of one SQLite database."""
    migrated_file()  # Otherwise each process would make it.
    return run(name, tests, arguments, DATABASE_URL="")


@contextmanager
def temporary_files_in_memory() -> Iterator[None]:
    """Use memory for temporary files if there is enough, so that no commit waits for a disk."""
    if not MEMORY_FOLDER.is_dir() or shutil.disk_usage(MEMORY_FOLDER).free < MEMORY_BYTES:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="petstore-tests-", dir=MEMORY_FOLDER) as folder:
        Path(folder).chmod(0o711)  # PostgreSQL's folder in it belongs to another user.
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        yield


@contextmanager
def postgresql() -> Iterator[str | None]:
    """Yield the URL of a PostgreSQL where databases can be created, or None.

    A new server has a migrated database to copy, and a stopped server with one can itself be copied.
    """
    if os.environ.get("DATABASE_URL", "").startswith("postgres") or programs() is None:
        yield servers.postgresql()
        return
    with postgresql_server(*SERVER_OPTIONS, copy_of=migrated_server()) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            # A database that is copied must have no connections.
            connection.execute("CREATE DATABASE migrated TEMPLATE postgres")
        os.environ["MIGRATED_DATABASE"] = server.url.removesuffix("/postgres") + "/migrated"
        yield server.url


def main(arguments: list[str]) -> int:
    """Run the tests; return the exit status of the first failure."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped by SIGTERM."))  # Stops the server, too.
    # A shell's background jobs ignore SIGINT, and so would commands that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # Cached bytecode makes starts faster.
    with temporary_files_in_memory():
        if arguments[:1] == ["--quick"]:
            ignored = [f"--ignore=tests/{folder}" for folder in SYSTEM]
            status = run_on_sqlite("SQLite, in one process", "not system", [*ignored, *arguments[1:]])
            return status or (0 if arguments[1:] else run_event_loop_tests())
        os.environ["PRELOADED"] = preloaded()
        with postgresql() as url:
            return run_on_each(url, arguments)


def run_event_loop_tests() -> int:
    """Run the event loop's tests that need no tables; return 0 without PostgreSQL."""
    url = servers.postgresql()
    if url is None:
        return 0
    return run("PostgreSQL, by the event loop", "not database", [EVENT_LOOP], 0, DATABASE_URL=url)


def run_on_each(postgresql: str | None, arguments: list[str]) -> int:
    """Run the tests on SQLite, then on PostgreSQL; return the exit status of the first failure."""
    if postgresql is not None:
        failed = run_on_sqlite("SQLite", ON_SQLITE, arguments)
        if failed:
            return failed
        # One more process, since some tests wait for services.
        return run("PostgreSQL", ON_POSTGRESQL, arguments, CORES + 1, DATABASE_URL=postgresql)
    if os.environ.get("CI") == "true":
        print("No PostgreSQL responds, and CI must test on one. Start it, or set DATABASE_URL.")
        return 1
    failed = run_on_sqlite("SQLite", "", arguments)
    print("SKIPPED: the tests on PostgreSQL. Start one with `docker compose up -d`.")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
