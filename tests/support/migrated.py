"""Migrated databases to copy, since migrating takes as long as hundreds of tests.

They are kept in build/ until a migration or a pinned package changes.
"""

import atexit
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg

from tests.support.packages import python
from tests.support.postgresql import PostgreSQLServer, postgresql_server, programs

ROOT = Path(__file__).parents[2]


def migrate(url: str) -> None:
    command = [python(), "manage.py", "migrate", "--verbosity", "0"]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"DATABASE_URL": url}, check=True)


@cache
def kept(kind: str) -> Path:
    """The path for a kind of migrated database, whose name depends on the migrations."""
    files = [ROOT / "requirements.txt", *sorted(ROOT.glob("[a-z]*/**/migrations/*.py"))]
    state = hashlib.sha256(kind.encode() + b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    folder = ROOT / "build/migrated"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{kind}-{state}"


def keep(made: Path, path: Path) -> None:
    """Copy a new database to its path, unless another session was faster; delete those before it."""
    for old in path.parent.glob(f"{path.name.rpartition('-')[0]}-*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    complete = path.with_name(f".{uuid4().hex}")
    subprocess.run(["cp", "-a", str(made), str(complete)], check=True)
    with suppress(OSError):
        complete.rename(path)


def migrated_file() -> Path:
    """A migrated SQLite database."""
    path = kept("sqlite")
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "migrated.sqlite3")
            migrate(f"sqlite:///{file}")
            keep(file, path)
    return path


def migrated_server() -> PostgreSQLServer:
    """A stopped PostgreSQL server to copy, with a migrated database."""
    folder = programs()
    assert folder is not None, "PostgreSQL's programs are not installed."
    path = kept(f"postgresql-{folder.parent.name}")
    if not path.exists():
        with postgresql_server("fsync=off") as server:
            migrate(server.url)
            server.stop()
            keep(server.data.parent, path)
    return PostgreSQLServer(path)


@cache
def migrated_database() -> str:
    """The URL of a migrated database, to copy, with the engine of DATABASE_URL.

    On PostgreSQL it is the one that MIGRATED_DATABASE names (tests/run.py), or one that is dropped at exit.
    """
    if os.environ["DATABASE_URL"].startswith("sqlite"):
        return f"sqlite:///{migrated_file()}"
    if shared := os.environ.get("MIGRATED_DATABASE"):
        return shared
    until_the_end = ExitStack()
    atexit.register(until_the_end.close)
    url = until_the_end.enter_context(temporary_database(Path()))
    migrate(url)
    return url


@contextmanager
def temporary_database(
    folder: Path, copy_of: str = "", options: str = "TEMPLATE template1"
) -> Iterator[str]:
    """Create a database on the tests' server; yield its URL, and drop it at the end.

    It is empty, or a copy of the one with that URL, which has no open connections. The options are those of
    PostgreSQL's CREATE DATABASE.
    """
    url = os.environ["DATABASE_URL"]
    if url.startswith("sqlite"):
        file = folder / "live.sqlite3"
        if copy_of:
            shutil.copyfile(name_of(copy_of), file)
        yield f"sqlite:///{file}"
        return
    name = f"petstore_live_{uuid4().hex}"
    options = f"TEMPLATE {name_of(copy_of)}" if copy_of else options
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} {options}".encode())
        try:
            yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def name_of(url: str) -> str:
    """The database's name, on SQLite its path."""
    return urlsplit(url).path.removeprefix("/")
