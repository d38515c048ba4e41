"""The variables that configure the service (D35): a wrong or missing one stops the start and is named."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict

from petstore import environment
from tests.support.live import ROOT

STRAY_BYTE = os.fsdecode(b"1:\xff")
READ_BY_SETTINGS = (
    "DATABASE_URL", "DATABASE_REPLICA_URL", "REPLICA_MAX_LAG", "DATABASE_STATEMENT_TIMEOUT",
    "DATABASE_CONNECT_TIMEOUT", "DATABASE_QUEUE_TIMEOUT", "DATABASE_PREPARED_STATEMENTS",
    "DATABASE_WRITE_CONNECTIONS", "SECRET_KEY", "SECRET_KEY_FALLBACKS", "DEBUG",
    "ALLOWED_HOSTS", "PORT", "ENVIRONMENT", "BASE_URL",
    "STAGING_BASE_URL", "TRUSTED_PROXY_COUNT", "API_KEY_PEPPERS", "API_KEY_PEPPER_NUMBER",
    "ANONYMOUS_PER_MINUTE",
    "REDIS_URL", "STAFF_TWO_FACTOR",
)  # fmt: skip
PROGRAM = "import petstore.settings as s; print({})"


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with only these variables of the service; empty ones hide what .env may say."""
    hidden = dict.fromkeys(READ_BY_SETTINGS, "")
    enough = {"SECRET_KEY": "a secret key", "API_KEY_PEPPERS": "1:a pepper"}
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT, env=os.environ | hidden | enough | variables, capture_output=True, text=True, check=False,
    )  # fmt: skip


def setting(expression: str, **variables: str) -> str:
    """Return how settings print that are loaded with these variables."""
    done = run("-c", PROGRAM.format(expression), **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEBUG", "maybe"),
        ("DEBUG", "2"),
        ("ENVIRONMENT", "test"),
        ("ENVIRONMENT", "Production"),
        ("STAFF_TWO_FACTOR", "yes"),
        ("PORT", "http"),
        ("PORT", "0"),
        ("PORT", "65536"),
        ("PORT", "8000.0"),
        ("PORT", "٨٠٠٠"),
        ("PORT", "9" * 5000),
        ("TRUSTED_PROXY_COUNT", "-1"),
        ("TRUSTED_PROXY_COUNT", "17"),
        ("TRUSTED_PROXY_COUNT", "one"),
        ("ANONYMOUS_PER_MINUTE", "0"),
        ("ANONYMOUS_PER_MINUTE", "1_000"),
        ("BASE_URL", "/v1"),
        ("BASE_URL", "pets.example/v1"),
        ("BASE_URL", "ftp://pets.example/v1"),
        ("BASE_URL", "https://pets.example"),
        ("BASE_URL", "https://pets.example/v2"),
        ("BASE_URL", "https:///v1"),
        ("BASE_URL", "https://:443/v1"),
        ("BASE_URL", "https://pets.example:x/v1"),
        ("BASE_URL", "https://pets.example:65536/v1"),
        ("BASE_URL", "https://[::1/v1"),
        ("BASE_URL", "https://pets.example/v1?version=/v1"),
        ("BASE_URL", "https://pets.example/v1#/v1"),
        ("BASE_URL", "https://name:secret@pets.example/v1"),
        ("BASE_URL", "https://pets.example/a b/v1"),
        ("STAGING_BASE_URL", "https://staging.pets.example"),
        ("ALLOWED_HOSTS", "https://pets.example/"),
        ("ALLOWED_HOSTS", "pets.example:8000"),
        ("METRICS_ALLOW_FROM", "everywhere"),
        ("METRICS_ALLOW_FROM", "10.0.0.1/8"),
        ("SECRET_KEY", ""),
        ("SECRET_KEY", "   "),
        ("SECRET_KEY", STRAY_BYTE),
        ("API_KEY_PEPPERS", ""),
        ("API_KEY_PEPPERS", "secret"),
        ("API_KEY_PEPPERS", "1:"),
        ("API_KEY_PEPPERS", ":secret"),
        ("API_KEY_PEPPERS", "0:secret"),
        ("API_KEY_PEPPERS", "10000:secret"),
        ("API_KEY_PEPPERS", "-1:secret"),
        ("API_KEY_PEPPERS", "1:one,1:other"),
        ("API_KEY_PEPPERS", "1:one,"),
        ("API_KEY_PEPPERS", STRAY_BYTE),
        ("API_KEY_PEPPER_NUMBER", "2"),
        ("API_KEY_PEPPER_NUMBER", "first"),
        ("DATABASE_URL", "petstore"),
        ("DATABASE_URL", "mysql://localhost/petstore"),
        ("DATABASE_URL", "sqlite://petstore.sqlite3"),
        ("DATABASE_URL", "sqlite:///"),
        ("DATABASE_URL", "sqlite:////no/such/folder/petstore.sqlite3"),
        ("DATABASE_URL", f"sqlite:///{ROOT}"),
        ("DATABASE_URL", "postgresql://localhost"),
        ("DATABASE_URL", "postgresql://localhost/"),
        ("DATABASE_URL", "postgresql://localhost:http/petstore"),
        ("DATABASE_URL", "postgresql://localhost:0/petstore"),
        ("DATABASE_URL", "postgresql://one,two:65536/petstore"),
        ("DATABASE_URL", "postgresql://localhost/petstore?color=blue"),
        ("DATABASE_URL", "postgresql://[::1/petstore"),
        ("DATABASE_URL", f"postgresql://{STRAY_BYTE}/petstore"),
        ("DATABASE_REPLICA_URL", "standby"),
        ("DATABASE_REPLICA_URL", "sqlite:///standby"),
        ("DATABASE_REPLICA_URL", "postgresql://one:1,two:2,three:none/petstore"),
        ("DATABASE_REPLICA_URL", "postgresql://standby/petstore"),  # Without PostgreSQL and Redis.
        ("REPLICA_MAX_LAG", "0"),
        ("REPLICA_MAX_LAG", "61"),
        ("DATABASE_QUEUE_TIMEOUT", "0"),
        ("DATABASE_WRITE_CONNECTIONS", "0"),
        ("REDIS_URL", "localhost:6379"),
        ("REDIS_URL", "http://localhost:6379"),
        ("REDIS_URL", "redis://localhost:none"),
        ("REDIS_URL", "redis://localhost:0"),
        ("REDIS_URL", "redis://[::1"),
    ],
)
def test_wrong_value_stops_the_start_with_one_sentence_that_names_it(name: str, value: str) -> None:
    done = run("manage.py", "check", **{name: value})
    assert done.returncode == 1
    assert done.stdout == ""
    sentence, *rest = done.stderr.splitlines()
    assert rest == []
    assert sentence.startswith(f"petstore: {name} ")
    assert sentence.endswith(".")


@pytest.mark.parametrize(
    "command", [("migrate",), ("serve",), ("issue_key", "--account", "Acme"), ("help",)]
)
def test_wrong_value_stops_every_command(command: tuple[str, ...]) -> None:
    done = run("manage.py", *command, PORT="http")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "petstore: PORT must be a whole number from 1 to 65535, not 'http'.\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_KEY_PEPPERS", "first:geheim"),
        ("API_KEY_PEPPERS", "1:geheim,1:geheim"),
        ("DATABASE_URL", "postgresql://petstore:geheim%zz@localhost/petstore"),
        ("DATABASE_URL", "postgresql://petstore:geheim@[::1/petstore"),
        ("DATABASE_URL", "mysql://petstore:geheim@localhost/petstore"),
        ("REDIS_URL", "redis://petstore:geheim@localhost:none"),
    ],
)
def test_refusal_of_a_value_tells_no_secret(name: str, value: str) -> None:
    done = run("manage.py", "check", **{name: value})
    assert done.returncode == 1
    assert "geheim" not in done.stderr


def test_two_secrets_are_all_that_must_be_set() -> None:
    assert run("manage.py", "check").returncode == 0


def test_debug_needs_no_secret() -> None:
    done = run("manage.py", "check", DEBUG="1", SECRET_KEY="", API_KEY_PEPPERS="")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("expression", "default"),
    [
        ("s.DEBUG", "False"),
        ("s.ENVIRONMENT", "production"),
        ("s.PORT", "8000"),
        ("s.BASE_URL", "http://localhost:8000/v1"),
        ("s.STAGING_BASE_URL", ""),
        ("s.ALLOWED_HOSTS", "['localhost', '127.0.0.1', '[::1]']"),
        ("s.TRUSTED_PROXY_COUNT", "0"),
        ("s.ANONYMOUS_PER_MINUTE", "300"),
        ("s.SECRET_KEY_FALLBACKS", "[]"),
        ("s.REDIS_URL", ""),
        ("s.DATABASES['default']['ENGINE']", "django.db.backends.sqlite3"),
        ("s.DATABASES['default']['NAME']", str(ROOT / "petstore.sqlite3")),
    ],
)
def test_variable_that_is_absent_or_empty_has_its_default(expression: str, default: str) -> None:
    assert setting(expression) == default


@pytest.mark.parametrize(
    ("name", "value", "expression", "read"),
    [
        ("DEBUG", "1", "s.DEBUG", "True"),
        ("DEBUG", "Off", "s.DEBUG", "False"),
        ("ENVIRONMENT", "staging", "s.ENVIRONMENT", "staging"),
        ("PORT", "8301", "s.BASE_URL", "http://localhost:8301/v1"),
        ("PORT", " 8301 ", "s.PORT", "8301"),
        ("BASE_URL", "https://pets.example/api/v1/", "s.BASE_URL", "https://pets.example/api/v1"),
        ("BASE_URL", "http://[::1]:8000/v1", "s.BASE_URL", "http://[::1]:8000/v1"),
        ("BASE_URL", "https://pets.example/v1", "s.SECURE_SSL_REDIRECT", "True"),
        ("BASE_URL", "https://pets.example/v1", "s.SESSION_COOKIE_SECURE", "True"),
        ("BASE_URL", "http://pets.example/v1", "s.SECURE_SSL_REDIRECT", "False"),
        ("BASE_URL", "http://pets.example/v1", "s.SESSION_COOKIE_SECURE", "False"),
        (
            "STAGING_BASE_URL",
            "https://staging.example/v1",
            "s.STAGING_BASE_URL",
            "https://staging.example/v1",
        ),
        ("ALLOWED_HOSTS", "pets.example, .pets.test", "s.ALLOWED_HOSTS", "['pets.example', '.pets.test']"),
        ("TRUSTED_PROXY_COUNT", "2", "s.TRUSTED_PROXY_COUNT", "2"),
        ("REDIS_URL", "redis://localhost:6379/1", "s.REDIS_URL", "redis://localhost:6379/1"),
        ("REDIS_URL", "unix:///run/redis.sock", "s.REDIS_URL", "unix:///run/redis.sock"),
        ("SECRET_KEY", "one", "s.SECRET_KEY", "one"),
        ("SECRET_KEY_FALLBACKS", "old,older", "s.SECRET_KEY_FALLBACKS", "['old', 'older']"),
        ("API_KEY_PEPPERS", "1:a:b, 20:c", "s.API_KEY_PEPPERS", "{1: b'a:b', 20: b'c'}"),
        ("API_KEY_PEPPER_NUMBER", "1", "s.API_KEY_PEPPER_NUMBER", "1"),
        ("ANONYMOUS_PER_MINUTE", "7", "s.ANONYMOUS_PER_MINUTE", "7"),
        ("DATABASE_URL", "sqlite:////tmp/a%20b", "s.DATABASES['default']['NAME']", "/tmp/a b"),
    ],
)
def test_right_value_is_read(name: str, value: str, expression: str, read: str) -> None:
    assert setting(expression, **{name: value}) == read


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads a database's URL as the settings do."""

    def read(url: str) -> dict[str, Any]:
        monkeypatch.setenv("DATABASE_URL", url)
        return environment.database("DATABASE_URL", "")

    return read


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("postgresql:///petstore", ("", "", "", "", "petstore")),
        ("postgres://db/petstore", ("", "", "db", "", "petstore")),
        ("postgresql://me:p%40ss@db:5433/petstore", ("me", "p@ss", "db", "5433", "petstore")),
        ("postgresql://one,two/petstore", ("", "", "one,two", ",", "petstore")),
        ("postgresql://me@one:5432,two:5433/petstore", ("me", "", "one,two", "5432,5433", "petstore")),
        ("postgresql://[::1]:5432/petstore", ("", "", "::1", "5432", "petstore")),
        ("postgresql://%2Frun%2Fpostgresql/petstore", ("", "", "/run/postgresql", "", "petstore")),
        ("postgresql://?host=db&dbname=petstore", ("", "", "db", "", "petstore")),
    ],
)
def test_postgresql_url_is_read_as_libpq_reads_it(database: Any, url: str, parts: tuple[str, ...]) -> None:
    read = database(url)
    assert read["ENGINE"] == "petstore.db"
    assert tuple(read[part] for part in ("USER", "PASSWORD", "HOST", "PORT", "NAME")) == parts


def test_postgresql_url_may_carry_parameters_of_libpq(database: Any) -> None:
    url = "postgresql://one,two/petstore?target_session_attrs=read-write&sslmode=verify-full&connect_timeout=9"
    options = database(url)["OPTIONS"]
    assert options["target_session_attrs"] == "read-write"
    assert options["sslmode"] == "verify-full"
    assert options["connect_timeout"] == "9"


def test_statements_are_prepared_unless_a_pooler_forbids_it(
    database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "postgresql://db/petstore"
    assert database(url)["OPTIONS"]["prepare_threshold"] == 1
    monkeypatch.setenv("DATABASE_PREPARED_STATEMENTS", "false")
    read = database(url)
    assert read["OPTIONS"]["prepare_threshold"] is None
    assert read["DISABLE_SERVER_SIDE_CURSORS"]


def test_timeouts_of_postgresql_are_settings(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read = database("postgresql://db/petstore")
    assert (read["STATEMENT_TIMEOUT"], read["OPTIONS"]["connect_timeout"]) == (5000, 2)
    assert int(read["OPTIONS"]["tcp_user_timeout"]) <= 15_000
    monkeypatch.setenv("DATABASE_STATEMENT_TIMEOUT", "700")
    monkeypatch.setenv("DATABASE_CONNECT_TIMEOUT", "7")
    read = database("postgresql://db/petstore?tcp_user_timeout=9000")
    assert (read["STATEMENT_TIMEOUT"], read["OPTIONS"]["connect_timeout"]) == (700, 7)
    assert read["OPTIONS"]["tcp_user_timeout"] == "9000"


@pytest.mark.parametrize("name", ["DATABASE_STATEMENT_TIMEOUT", "DATABASE_CONNECT_TIMEOUT"])
@pytest.mark.parametrize("value", ["-1", "1s", "999999999"])
def test_wrong_timeout_is_refused(
    database: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ImproperlyConfigured, match=name):
        database("postgresql://db/petstore")


@pytest.mark.parametrize(
    ("url", "places"),
    [
        ("postgresql://one/petstore", [("one", "")]),
        ("postgresql://one:1,two:2/petstore", [("one", "1"), ("two", "2")]),
        ("postgresql://one,two/petstore?port=5433", [("one", "5433"), ("two", "5433")]),
        ("postgresql://one:1/petstore,postgres://two:2/petstore", [("one", "1"), ("two", "2")]),
    ],
)
def test_each_host_of_a_replica_url_is_a_replica(
    monkeypatch: pytest.MonkeyPatch, url: str, places: list[tuple[str, str]]
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://db/petstore")
    monkeypatch.setenv("REDIS_URL", "redis://localhost")
    monkeypatch.setenv("DATABASE_REPLICA_URL", url)
    read = environment.replicas("DATABASE_REPLICA_URL")
    assert [(one["HOST"], one["PORT"]) for one in read.values()] == places
    assert list(read) == ["replica1", "replica2"][: len(places)]


@pytest.mark.parametrize(("name", "value"), [("REDIS_URL", ""), ("DATABASE_URL", "sqlite:////tmp/a")])
def test_replicas_need_redis_and_postgresql(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://db/petstore")
    monkeypatch.setenv("REDIS_URL", "redis://localhost")
    monkeypatch.setenv("DATABASE_REPLICA_URL", "postgresql://standby/petstore")
    monkeypatch.setenv(name, value)
    with pytest.raises(ImproperlyConfigured, match=f"DATABASE_REPLICA_URL needs .*{name}"):
        environment.replicas("DATABASE_REPLICA_URL")


def test_sqlite_queues_writers_and_never_makes_readers_wait(database: Any, tmp_path: Path) -> None:
    options = database(f"sqlite:///{tmp_path}/petstore.sqlite3")["OPTIONS"]
    assert options["transaction_mode"] == "IMMEDIATE"
    assert "journal_mode=WAL" in options["init_command"]


@pytest.mark.parametrize("url", ["", "sqlite:///nowhere/at/all", "postgresql://db"])
def test_wrong_database_url_is_refused_where_it_is_read(database: Any, url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL"):
        database(url)


@pytest.mark.skipif(not os.environ["DATABASE_URL"].startswith("postgres"), reason="Needs PostgreSQL.")
def test_second_host_answers_when_the_first_does_not() -> None:
    server = conninfo_to_dict(os.environ["DATABASE_URL"])
    hosts = {"host": f"127.0.0.1,{server.get('host', '')}", "port": f"1,{server.get('port', '')}"}
    url = f"postgresql://?{urlencode(server | hosts)}"
    done = run("manage.py", "showmigrations", DATABASE_URL=url)
    assert done.returncode == 0, done.stderr
    assert "0002_plans" in done.stdout
