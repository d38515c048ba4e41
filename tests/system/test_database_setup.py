"""Databases as operators may set them up: in another locale, without rights, in files of another user."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from getpass import getuser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.support.live import ROOT, run_manage
from tests.support.migrated import migrated_database, name_of, temporary_database
from tests.support.packages import python
from tests.support.preloaded import CommandRunner
from tests.support.skips import NEEDS_POSTGRESQL

TURKISH = "LOCALE_PROVIDER icu ICU_LOCALE 'tr-TR' LOCALE 'C' TEMPLATE template0"
FOLD = """
from django.contrib.auth.models import User
from django.db.models import F
from inventory.models import Category, Pet
from inventory.search import filter_by_prefix

category = Category.objects.create(name="FISHING")
pet = Pet.objects.create(name="Iris", category=category)
User.objects.create(username="ILYA")
found = [
    filter_by_prefix(Pet.objects.all(), "iri"),
    Pet.objects.filter(name__search_key__contains="RI"),
    Category.objects.filter(name__search_key="fishing"),
    User.objects.filter(username__iexact="ilya"),
    User.objects.filter(username__icontains="ily"),
    User.objects.filter(username__istartswith=F("username")),
]
print([rows.count() for rows in found], Pet.objects.get().created_at == pet.created_at)
"""


@contextmanager
def new_database(options: str, *statements: str) -> Iterator[str]:
    """Create a database on the tests' server, run statements there, and yield its URL."""
    with temporary_database(Path(), options=options) as url:
        with psycopg.connect(url, autocommit=True) as own:
            for statement in statements:
                own.execute(sql.SQL(statement).format(name=sql.Identifier(name_of(url))))
        yield url


@NEEDS_POSTGRESQL
def test_migrate_rejects_a_database_that_is_not_utf8() -> None:
    with new_database("ENCODING SQL_ASCII LOCALE 'C' TEMPLATE template0") as url:
        failed = run_manage(os.environ | {"DATABASE_URL": url}, "migrate")
    assert (failed.returncode, "Traceback" in failed.stderr) == (1, False)
    assert "The database has the encoding SQL_ASCII, not UTF8." in failed.stderr


@pytest.fixture
def role() -> Iterator[str]:
    """A role without rights, which is its own password."""
    name = f"petstore_{uuid4().hex}"
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'")
        yield name
        connection.execute(f"DROP ROLE {name}")


@contextmanager
def commands_of(role: str, url: str) -> Iterator[CommandRunner]:
    """Yield a runner of commands on a database as a role."""
    parts = urlsplit(url)
    netloc = f"{role}:{role}@{parts.hostname}:{parts.port or 5432}"
    environment = os.environ | {"DATABASE_URL": urlunsplit(parts._replace(netloc=netloc))}
    with closing(CommandRunner(environment)) as commands:
        yield commands


def diagnose(commands: CommandRunner, name: str) -> dict[str, str]:
    """Return the result of one of doctor's checks."""
    checks = json.loads(commands.run("doctor", "--json")[1])["checks"]
    return next(check for check in checks if check["name"] == name)


def grant(text: str, number: int, url: str) -> None:
    """Run a GRANT that a message names."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(re.findall(r"GRANT [^;]*;", text)[number])


@NEEDS_POSTGRESQL
def test_missing_rights_to_migrate_are_granted_by_the_reported_statement_in_any_locale(role: str) -> None:
    style = "ALTER DATABASE {name} SET DateStyle = 'German'"
    with new_database(TURKISH, style) as url, commands_of(role, url) as commands:
        status, _, err = commands.run("migrate")
        assert (status, "Traceback" in err) == (1, False)
        assert "permission denied for schema public" in err
        found = diagnose(commands, "migrations")
        assert (found["state"], found["next"] in err) == ("problem", True)
        grant(err, 0, url)
        assert diagnose(commands, "migrations")["next"] == "Run manage.py migrate."
        commands.manage("migrate", "--verbosity", "0")
        # The locale changes neither folding nor times.
        assert commands.manage("shell", "--no-imports", "-c", FOLD) == "[1, 1, 1, 1, 1, 1] True\n"


@NEEDS_POSTGRESQL
def test_missing_rights_to_serve_are_granted_by_the_reported_statement(role: str) -> None:
    with (
        temporary_database(Path(), copy_of=migrated_database()) as url,
        commands_of(role, url) as commands,
    ):
        found = diagnose(commands, "database")
        assert (found["state"], "permission denied" in found["detail"]) == ("problem", True)
        grant(found["next"], 1, url)
        assert diagnose(commands, "database")["state"] == "ok"


def test_unwritable_sqlite_file_is_reported_with_its_owner(tmp_path: Path) -> None:
    if not migrated_database().startswith("sqlite"):
        pytest.skip("PostgreSQL has rights instead.")
    file = tmp_path / "petstore.sqlite3"
    shutil.copyfile(name_of(migrated_database()), file)
    file.chmod(0o444)
    environment = os.environ | {"DATABASE_URL": f"sqlite:///{file}"}

    def run(*arguments: str) -> Any:
        # Root can write any file, unless it has given up this capability.
        command = ["setpriv", "--bounding-set=-dac_override"] if os.getuid() == 0 else []
        command += [python(), "manage.py", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )

    cause = f"{getuser()} can't write: {file} belongs to {getuser()}"
    failed = run("issue_key", "--account", "Acme").stderr
    assert f"attempt to write a readonly database. {cause}" in failed
    found = {check["name"]: check for check in json.loads(run("doctor", "--json").stdout)["checks"]}
    for name in ("database", "folders"):
        assert (found[name]["state"], found[name]["next"].startswith(cause)) == ("problem", True)
