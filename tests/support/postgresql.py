"""PostgreSQL servers that a test may stop, kill, freeze and restart.

Created from the installed binaries, in a temporary folder, on a free port of 127.0.0.1. Commits survive a
crash, unless `fsync=off` is among the settings.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from tests.support.servers import free_port, is_running, wait_until

DEBIAN = "usr/lib/postgresql/*/bin/initdb"
STOP_SECONDS = 30
FAST, IMMEDIATE = signal.SIGINT, signal.SIGQUIT  # The manual, "Shutting Down the Server".
OWNER = "postgres"  # The server does not run as root.


def programs() -> Path | None:
    """The folder of PostgreSQL's programs, of the newest version, or None."""
    named = shutil.which("initdb")
    if named:
        return Path(named).resolve().parent
    found = (program.parent for program in Path("/").glob(DEBIAN))
    return max(found, key=lambda folder: float(folder.parent.name), default=None)


def owner() -> dict[str, Any]:
    """Arguments of `subprocess` that run a program as the server's user."""
    return {"user": OWNER, "group": OWNER, "extra_groups": []} if os.getuid() == 0 else {}


def run(program: str, *arguments: str) -> None:
    folder = programs()
    assert folder is not None, "PostgreSQL's programs are not installed."
    done = subprocess.run(
        [str(folder / program), *arguments],
        cwd="/",
        env=os.environ | {"LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
        **owner(),
    )
    assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"


class PostgreSQLServer:
    """One server: its data folder, port and process."""

    def __init__(self, folder: Path, *options: str) -> None:
        """Take an empty folder that the server's user may write to, and settings such as `jit=off`."""
        self.data = folder / "data"
        self.port = free_port()
        self.options = options
        self.log = folder / "postgresql.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """A DATABASE_URL with superuser rights."""
        return f"postgresql://{OWNER}@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        run("initdb", "-D", str(self.data), "-U", OWNER, "-A", "trust", "-E", "UTF8", "--no-sync")

    def copy(self, stopped: PostgreSQLServer) -> None:
        """Initialize with the data of a server that was shut down cleanly."""
        subprocess.run(["cp", "-a", str(stopped.data), str(self.data)], check=True)

    def follow(self, primary: PostgreSQLServer) -> None:
        """Initialize as a streaming standby of a running server."""
        run("pg_basebackup", "-D", str(self.data), "-d", primary.url, "-R", "-X", "stream", "-c", "fast")

    def start(self) -> None:
        """Start, and wait until the server accepts connections."""
        folder = programs()
        assert folder is not None
        settings = (
            f"port={self.port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", *self.options,
        )  # fmt: skip
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(folder / "postgres"), "-D", str(self.data), *(f"--{one}" for one in settings)],
                cwd="/", env=os.environ | {"LC_ALL": "C.UTF-8"}, stdout=log, stderr=log, **owner(),
            )  # fmt: skip
        wait_until(lambda: psycopg.connect(self.url, connect_timeout=2).close())

    def stop(self, how: signal.Signals = FAST) -> None:
        """Stop in one of the manual's modes, and wait for the exit."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(STOP_SECONDS)
            self.process = None

    def freeze(self, *, thaw: bool = False) -> None:
        """Stop responding while connections stay open, like a hung machine; or resume."""
        assert self.process is not None
        parent = self.process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for pid in (parent, *map(int, children)):
            with suppress(ProcessLookupError):  # A client has just disconnected.
                os.kill(pid, signal.SIGCONT if thaw else signal.SIGSTOP)

    def kill(self) -> None:
        """Kill all processes at once, so that none ends in an orderly way, like a power failure."""
        assert self.process is not None
        parent = self.process.pid
        self.freeze()
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for pid in (parent, *map(int, children)):
            os.kill(pid, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)
        # The server does not start while a process of the last one is attached to its shared memory.
        wait_until(lambda: not any(map(is_running, children)))
        (self.data / "postmaster.pid").unlink()  # The server's IDs could be reused.
        self.process = None

    def promote(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")


@contextmanager
def server_folder() -> Iterator[Path]:
    """Yield a temporary folder that the server's user owns."""
    with tempfile.TemporaryDirectory(prefix="petstore-postgresql-") as name:
        folder = Path(name)
        if os.getuid() == 0:
            account = pwd.getpwnam(OWNER)
            os.chown(folder, account.pw_uid, account.pw_gid)
        yield folder


@contextmanager
def postgresql_server(
    *options: str, copy_of: PostgreSQLServer | None = None, standby_of: PostgreSQLServer | None = None
) -> Iterator[PostgreSQLServer]:
    """Yield a running server: empty, a copy of a stopped one, or a streaming standby of a running one."""
    with server_folder() as folder:
        server = PostgreSQLServer(folder, *options)
        if copy_of is not None:
            server.copy(copy_of)
        elif standby_of is not None:
            server.follow(standby_of)
        else:
            server.make()
        try:
            server.start()
            yield server
        finally:
            end(server)


def standby_server(primary: PostgreSQLServer, *options: str) -> AbstractContextManager[PostgreSQLServer]:
    """A context manager of a running streaming standby of a server."""
    return postgresql_server(*options, standby_of=primary)


def end(server: PostgreSQLServer) -> None:
    """Stop a server, which may be frozen."""
    if server.process is not None and server.process.poll() is None:
        server.freeze(thaw=True)
        server.stop(IMMEDIATE)
