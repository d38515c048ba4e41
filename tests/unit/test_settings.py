"""The settings from the environment (D35): errors name the invalid or missing variable."""

import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from petstore import environment
from tests.support.live import ROOT

INVALID_BYTE = os.fsdecode(b"1:\xff")
COLLECTOR = "http://127.0.0.1:4318"
POSTGRESQL = "postgresql://db/petstore"
ENVIRONMENT = {"SECRET_KEY": "a secret key", "API_KEY_PEPPERS": "1:a pepper", "PYTHON_DOTENV_DISABLED": "1"}


def load(**variables: str) -> Any:
    """Load the settings with only these variables and the required ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "environ", ENVIRONMENT | variables)
        return SimpleNamespace(**runpy.run_path(str(ROOT / "petstore/settings.py")))


def setting(expression: str, **variables: str) -> str:
    """Evaluate an expression on the settings `s` that these variables lead to."""
    return str(eval(expression, {"s": load(**variables)}))


def rejection(**variables: str) -> str:
    with pytest.raises(ImproperlyConfigured) as error:
        load(**variables)
    return str(error.value)


INVALID = {
    "DEBUG": ["maybe"],
    "ENVIRONMENT": ["Production"],
    "STAFF_TWO_FACTOR": ["yes"],
    "SIGN_UP": ["yes", "open"],  # On another machine than this one.
    "PORT": ["http", "0", "٨٠٠٠", "9" * 5000],
    "TRUSTED_PROXY_COUNT": ["17"],
    "ANONYMOUS_PER_MINUTE": ["0"],
    "SUPPORT_URL": ["javascript:alert(1)", 'https://help.example/"'],
    "SUPPORT_EMAIL": ["help", "help@straße.example"],
    "EMAIL_URL": [
        "mail.example.com", "http://mail.example.com?from=a@pets.example", "smtp://mail.example.com",
        "smtp://mail.example.com:x?from=a@pets.example",
        "smtp://mail.example.com?from=a@pets.example%0Abcc: b@c",
        "smtp://mail.example.com?from=a@straße.example",
    ],
    "SECURITY_CONTACT": ["security@pets.example", "http://pets.example", "mailto:nobody"],
    "SECURITY_EXPIRES": ["tomorrow", "2030-01-31T00:00:00"],
    "BASE_URL": [
        "pets.example/v1", "ftp://pets.example/v1", "https://pets.example", "https://:443/v1",
        "https://pets.example:x/v1", "https://[::1/v1", "https://pets.example/v1?version=/v1",
        "https://name:secret@pets.example/v1", "https://pets.example/a b/v1", "https://straße.example/v1",
    ],
    "STAGING_BASE_URL": ["https://staging.pets.example"],
    "ALLOWED_HOSTS": ["https://pets.example/", "straße.example"],
    "METRICS_ALLOW_FROM": ["everywhere", "10.0.0.1/8"],
    "SECRET_KEY": ["", INVALID_BYTE],
    "API_KEY_PEPPERS": [
        "", "secret", "1:", "0:secret", "1:one,1:other", "1:one,", INVALID_BYTE, "first:geheim",
        "1:geheim,1:geheim",
    ],
    "API_KEY_PEPPER_NUMBER": ["2", "first"],
    "DATABASE_URL": [
        "petstore", "mysql://localhost/petstore", "sqlite://petstore.sqlite3",
        "sqlite:////no/such/folder/petstore.sqlite3", f"sqlite:///{ROOT}", "postgresql://localhost",
        "sqlite:////tmp/a?timeout=soon", "sqlite:////tmp/a?mode=ro&mode", "postgresql://stra\u00dfe.example/petstore",
        "postgresql://localhost:http/petstore", "postgresql://one,two:65536/petstore",
        "postgresql://localhost/petstore?color=blue", "postgresql://[::1/petstore",
        "postgresql://localhost/petstore?connect_timeout=soon",
        f"postgresql://{INVALID_BYTE}/petstore", "postgresql://petstore:geheim%zz@localhost/petstore",
        "postgresql://petstore:geheim@[::1/petstore", "mysql://petstore:geheim@localhost/petstore",
    ],
    "DATABASE_REPLICA_URL": ["sqlite:///standby", "postgresql://one:1,two:2,three:none/petstore"],
    "REPLICA_MAX_LAG": ["61"],
    "DATABASE_STATEMENT_TIMEOUT": ["-1", "999999999"],
    "DATABASE_CONNECT_TIMEOUT": ["-1", "999999999"],
    "DATABASE_QUEUE_TIMEOUT": ["0"],
    "DATABASE_WRITE_CONNECTIONS": ["0"],
    "DEMO_KEY": ["psk_live_demo"],  # With https, it would be public.
    "LOG_FORMAT": ["xml"],
    "LOG_LEVEL": ["INFO"],
    "ACCESS_LOG": ["some"],
    "METRICS_PORT": ["65536"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in INVALID.items() for value in values]
)
def test_invalid_value_is_rejected_by_name(name: str, value: str) -> None:
    deployment = {"DATABASE_URL": POSTGRESQL, "BASE_URL": "https://pets.example/v1"}
    message = rejection(**deployment | {name: value})
    assert message.startswith(f"{name} ")
    assert message.endswith(".")
    assert "\n" not in message
    assert "geheim" not in message


def test_unknown_parameter_of_a_url_is_named() -> None:
    for parameter in ("schema", "pool-size"):
        for name, url in (
            ("DATABASE_URL", f"{POSTGRESQL}?sslmode=require&{parameter}=x"),
            ("DATABASE_URL", f"sqlite:////tmp/a?timeout=20&{parameter}=x"),
            ("DATABASE_REPLICA_URL", f"postgresql://standby/petstore?{parameter}=x"),
            ("EMAIL_URL", f"smtp://mail.example.com?from=a@pets.example&{parameter}=x"),
        ):
            message = rejection(**{"DATABASE_URL": POSTGRESQL} | {name: url})
            assert f"parameter {parameter}" in message


def test_missing_packages_are_reported_with_the_command_to_install_them(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    message = rejection(OTEL_EXPORTER_OTLP_ENDPOINT=COLLECTOR)
    assert "OTEL_EXPORTER_OTLP_ENDPOINT is set, but opentelemetry" in message
    assert "pip install --require-hashes -r requirements-otel.txt" in message


def test_sign_up_and_a_demo_key_are_possible_on_this_machine_only() -> None:
    for host in ("localhost:8000", "127.0.0.2", "[::1]:8000", "LOCALHOST"):
        s = load(SIGN_UP="open", DEMO_KEY="psk_live_demo", BASE_URL=f"http://{host}/v1")
        assert (s.SIGN_UP, s.DEMO_KEY) == ("open", "psk_live_demo")
    for host in (
        "10.0.0.1", "0.0.0.0:8000", "[2001:db8::1]", "localhost.example", "127.0.0.1.example",
        "localhost@pets.example",
    ):  # fmt: skip
        message = rejection(SIGN_UP="open", BASE_URL=f"https://{host}/v1")
        assert message.startswith(("SIGN_UP can only be open on this machine", "BASE_URL must be"))


@pytest.mark.parametrize(
    ("name", "value", "expression", "expected"),
    [
        # The defaults.
        ("DEBUG", "", "s.DEBUG, s.ENVIRONMENT, s.PORT, s.SIGN_UP", "(False, 'production', 8000, 'closed')"),
        ("BASE_URL", "", "s.BASE_URL, s.ALLOWED_HOSTS",
         "('http://localhost:8000/v1', ['localhost', '127.0.0.1', '[::1]'])"),
        ("EMAIL_URL", "", "s.ANONYMOUS_PER_MINUTE, s.MAIL_SERVER", "(300, {})"),
        ("LOG_FORMAT", "", "s.LOG_FORMAT, s.ACCESS_LOG", "('json', True)"),
        ("SUPPORT_URL", "", "s.SUPPORT_URL, s.SUPPORT_EMAIL", "('', '')"),
        ("SECURITY_CONTACT", "", "s.SECURITY_CONTACT, s.SECURITY_EXPIRES", "('', None)"),
        ("DATABASE_URL", "", "s.DATABASES['default']['ENGINE']", "django.db.backends.sqlite3"),
        ("DATABASE_URL", "", "s.DATABASES['default']['NAME']", str(ROOT / "petstore.sqlite3")),
        ("DATABASE_URL", "", "s.SERVE_MODE", "threads"),
        ("DATABASE_URL", POSTGRESQL, "s.SERVE_MODE", "loop"),
        # Other values.
        ("DEBUG", "1", "s.LOG_FORMAT", "text"),
        ("DEBUG", "Off", "s.DEBUG", "False"),
        ("ENVIRONMENT", "staging", "s.ENVIRONMENT", "staging"),
        ("EMAIL_URL", "smtp://ann:a%40b@mail.example?from=shop@pets.example",
         "s.EMAIL_HOST, s.EMAIL_PORT, s.EMAIL_HOST_PASSWORD, s.EMAIL_USE_TLS, s.EMAIL_USE_SSL",
         "('mail.example', 587, 'a@b', True, False)"),
        ("EMAIL_URL", "smtp://localhost:25?from=a@b.co", "s.EMAIL_PORT, s.EMAIL_USE_TLS", "(25, False)"),
        ("EMAIL_URL", "smtps://m.example?from=a@b.example", "s.EMAIL_PORT, s.EMAIL_USE_SSL", "(465, True)"),
        ("PORT", " 8301 ", "s.PORT, s.BASE_URL", "(8301, 'http://localhost:8301/v1')"),
        ("BASE_URL", "https://pets.example/api/v1/", "s.BASE_URL", "https://pets.example/api/v1"),
        ("BASE_URL", "http://[::1]:8000/v1", "s.BASE_URL", "http://[::1]:8000/v1"),
        ("BASE_URL", "HTTPS://Pets.example:443/v1", "s.ORIGIN, s.BASE_URL",
         "('https://pets.example', 'https://pets.example/v1')"),
        ("BASE_URL", "HTTPS://pets.example/v1", "s.HTTPS, s.SESSION_COOKIE_SECURE, s.SECURE_SSL_REDIRECT",
         "(True, True, True)"),
        ("BASE_URL", "https://pets.example:8443/v1", "s.SECURE_SSL_HOST", "pets.example:8443"),
        ("BASE_URL", "http://pets.example/v1", "s.SECURE_SSL_REDIRECT", "False"),
        ("ALLOWED_HOSTS", "pets.example, .pets.test", "s.ALLOWED_HOSTS", "['pets.example', '.pets.test']"),
        ("TRUSTED_PROXY_COUNT", "2", "s.TRUSTED_PROXY_COUNT", "2"),
        ("LOG_LEVEL", "warning", "s.LOGGING['root']['level']", "WARNING"),
        ("SECRET_KEY_FALLBACKS", "old,older", "s.SECRET_KEY_FALLBACKS", "['old', 'older']"),
        ("API_KEY_PEPPERS", "1:a:b, 20:c", "s.API_KEY_PEPPERS", "{1: b'a:b', 20: b'c'}"),
        ("API_KEY_PEPPER_NUMBER", "1", "s.API_KEY_PEPPER_NUMBER", "1"),
        ("DATABASE_URL", "sqlite:////tmp/a%20b%3Fc", "s.DATABASES['default']['NAME']", "/tmp/a b?c"),
        ("DATABASE_URL", "sqlite:////tmp/a?timeout=20",
         "(s.DATABASES['default']['NAME'], *map(s.DATABASES['default']['OPTIONS'].get,"
         " ('timeout', 'transaction_mode')))", "('/tmp/a', 20, 'IMMEDIATE')"),
        ("DATABASE_URL", "sqlite:////tmp/a",
         "'journal_mode=WAL' in s.DATABASES['default']['OPTIONS']['init_command']", "True"),
    ],
)  # fmt: skip
def test_valid_value_is_parsed(name: str, value: str, expression: str, expected: str) -> None:
    assert setting(expression, **{name: value}) == expected


@pytest.mark.parametrize(
    "host", ["b\u00fccher.example", "B\u00dcCHER.example", "bu\u0308cher.example", "xn--bcher-kva.EXAMPLE"]
)
def test_international_addresses_become_ascii(host: str) -> None:
    """In headers, every byte that is not ASCII is lost or encoded in a way that clients don't expect."""
    s = load(
        DATABASE_URL=f"postgresql://one,{host},%2Frun%2Fl\u00e4ufe/petstore",
        BASE_URL=f"https://{host}:8443/l\u00e4den/v1",
        STAGING_BASE_URL=f"https://{host}:443/l%C3%A4den/v1",
        SUPPORT_URL=f"https://{host}/hilfe?zu=k\u00e4fig#\u00fc",
        SUPPORT_EMAIL=f"hilfe@{host}",
        SECURITY_CONTACT=f"mailto:hilfe@{host}",
        ALLOWED_HOSTS=f"{host}, .{host}",
        EMAIL_URL=f"smtp://ann:k\u00e4fig@{host}?from=laden@{host}",
    )
    name = "xn--bcher-kva.example"
    expected = {
        "BASE_URL": f"https://{name}:8443/l%C3%A4den/v1", "ORIGIN": f"https://{name}:8443",
        "CSRF_TRUSTED_ORIGINS": [f"https://{name}:8443"],
        "STAGING_BASE_URL": f"https://{name}/l%C3%A4den/v1",
        "SUPPORT_URL": f"https://{name}/hilfe?zu=k%C3%A4fig#%C3%BC",
        "SUPPORT_EMAIL": f"hilfe@{name}", "SECURITY_CONTACT": f"mailto:hilfe@{name}",
        "ALLOWED_HOSTS": [name, f".{name}"],
        "EMAIL_HOST": name, "EMAIL_HOST_PASSWORD": "k\u00e4fig", "DEFAULT_FROM_EMAIL": f"laden@{name}",
    }  # fmt: skip
    assert {setting: getattr(s, setting) for setting in expected} == expected
    assert s.DATABASES["default"]["HOST"] == f"one,{name},/run/l\u00e4ufe"


ALWAYS: dict[str, Any] = {"connect_timeout": 2, "tcp_user_timeout": 15_000, "prepare_threshold": 1}


@pytest.mark.parametrize(
    ("query", "variables", "options", "settings"),
    [
        ("", {}, ALWAYS, {"STATEMENT_TIMEOUT": 5000, "DISABLE_SERVER_SIDE_CURSORS": False}),
        ("", {"DATABASE_CONNECT_TIMEOUT": "7"}, {"connect_timeout": 7}, {}),
        ("", {"DATABASE_STATEMENT_TIMEOUT": "700"}, {}, {"STATEMENT_TIMEOUT": 700}),
        ("", {"DATABASE_PREPARED_STATEMENTS": "false"}, {"prepare_threshold": None},
         {"DISABLE_SERVER_SIDE_CURSORS": True}),
        ("?target_session_attrs=read-write&sslmode=verify-full&connect_timeout=9&tcp_user_timeout=9000",
         {"DATABASE_CONNECT_TIMEOUT": "7"},
         {"target_session_attrs": "read-write", "sslmode": "verify-full", "connect_timeout": "9",
          "tcp_user_timeout": "9000"}, {}),
    ],
)  # fmt: skip
def test_connections_are_configured_by_variables_and_the_url(
    query: str, variables: dict[str, str], options: dict[str, Any], settings: dict[str, Any]
) -> None:
    database = load(DATABASE_URL=POSTGRESQL + query, **variables).DATABASES["default"]
    assert options.items() <= database["OPTIONS"].items()
    assert settings.items() <= database.items()


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
def test_postgresql_url_is_parsed_by_libpq(url: str, parts: tuple[str, ...]) -> None:
    database = load(DATABASE_URL=url).DATABASES["default"]
    assert database["ENGINE"] == "petstore.db"
    assert tuple(database[part] for part in ("USER", "PASSWORD", "HOST", "PORT", "NAME")) == parts


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("postgresql://one/petstore", [("one", "")]),
        ("postgresql://one:1,two:2/petstore", [("one", "1"), ("two", "2")]),
        ("postgresql://one,two/petstore?port=5433", [("one", "5433"), ("two", "5433")]),
        ("postgresql://one:1/petstore,postgres://two:2/petstore", [("one", "1"), ("two", "2")]),
    ],
)
def test_each_host_of_a_replica_url_is_a_replica(url: str, addresses: list[tuple[str, str]]) -> None:
    databases = load(DATABASE_URL=POSTGRESQL, DATABASE_REPLICA_URL=url).DATABASES
    assert list(databases) == ["default", "replica1", "replica2"][: len(addresses) + 1]
    replicas = list(databases.values())[1:]
    assert [(replica["HOST"], replica["PORT"]) for replica in replicas] == addresses
    message = rejection(DATABASE_URL="sqlite:////tmp/a", DATABASE_REPLICA_URL=url)
    assert message.startswith("DATABASE_REPLICA_URL needs PostgreSQL")


# --- The file .env -------------------------------------------------------------------------------


@pytest.fixture
def env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a .env file; its variables are set in a copy of the environment."""
    monkeypatch.setattr(os, "environ", {"SET": "by the environment"})
    return tmp_path / ".env"


def get_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@pytest.mark.parametrize(
    ("content", "variables"),
    [
        (b"NAME=ab${HOME}cd\n", {"NAME": "ab${HOME}cd"}),
        (b'NAME="${HOME}"\nOTHER=$HOME', {"NAME": "${HOME}", "OTHER": "$HOME"}),
        (b"NAME=ab${\n", {"NAME": "ab${"}),
        (b"\xef\xbb\xbfNAME=1\r\nOTHER=2\r\n", {"NAME": "1", "OTHER": "2"}),
        ("NAME=caf\u00e9".encode(), {"NAME": "caf\u00e9"}),
        (b"# A comment\n\nexport NAME='a b' # another\n", {"NAME": "a b"}),
        (b"NAME=1\nNAME=a=b", {"NAME": "a=b"}),
        (b"SET=by the file\n", {}),
        (b"", {}),
    ],
)
def test_env_file_is_optional_and_read_literally(
    env_file: Path, content: bytes, variables: dict[str, str]
) -> None:
    environment.load(env_file)
    env_file.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "PYTHON_DOTENV_DISABLED", "1")
        environment.load(env_file)
    assert get_environment() == {"SET": "by the environment"}
    environment.load(env_file)
    assert get_environment() == {"SET": "by the environment"} | variables


NOT_UTF8 = "is not valid UTF-8. Save the file in that encoding."
NOT_A_VARIABLE = "is not of the form NAME=VALUE."


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("NAME=geheim\nOTHER=2".encode("utf-16"), 1, NOT_UTF8),
        ("NAME=geheim\nOTHER=2".encode("utf-16-be"), 1, NOT_UTF8),
        (b"NAME=1\r\nOTHER=geheim\xe9\r\n", 2, NOT_UTF8),
        (b"NAME=1\n\nOTHER=geheim\0\n", 3, NOT_UTF8),
        (b"NAME=1\n\ngeheim geheim\n", 3, NOT_A_VARIABLE),
        (b'NAME=1\nOTHER="geheim\nMORE=3\n', 2, NOT_A_VARIABLE),
        (b"'NAME=geheim'=1\n", 1, NOT_A_VARIABLE),
        (b"=geheim\n", 1, NOT_A_VARIABLE),
        (b"OTHER=1\nNAME:geheim\n", 2, NOT_A_VARIABLE),
        (b"export NAME\n", 1, NOT_A_VARIABLE),
        ("\u200bNAME=geheim\n".encode(), 1, NOT_A_VARIABLE),
    ],
)
def test_malformed_env_file_is_reported_with_its_line(
    env_file: Path, content: bytes, line: int, problem: str
) -> None:
    env_file.write_bytes(content)
    with pytest.raises(ImproperlyConfigured) as error:
        environment.load(env_file)
    assert str(error.value) == f"{env_file}, line {line}, {problem}"
    assert get_environment() == {"SET": "by the environment"}
