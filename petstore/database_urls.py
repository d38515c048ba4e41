"""Django's database settings, from DATABASE_URL and DATABASE_REPLICA_URL."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from django.core.exceptions import ImproperlyConfigured

from petstore.addresses import to_ascii
from petstore.environment import flag, integer, require, text

POSTGRESQL_SCHEMES = {"postgres", "postgresql"}
REPLICA_STATEMENT_TIMEOUT = 1000  # Milliseconds. A read that exceeds it is retried on the primary.


def database(name: str, default: str) -> dict[str, Any]:
    """Build Django's database settings from `sqlite:///file?timeout=seconds` or a PostgreSQL URL.

    libpq parses PostgreSQL URLs, which may have several hosts, sockets and parameters (section "Connection
    URIs" of its documentation).
    """
    url = text(name, default)
    scheme = url.partition("://")[0]
    if scheme == "sqlite":
        return sqlite(name, url)
    require(scheme in POSTGRESQL_SCHEMES, name, "must start with sqlite:/// or postgresql://.")
    return postgresql(name, url)


def sqlite(name: str, url: str) -> dict[str, Any]:
    """Configure SQLite so that reads don't wait for writes, and writes queue until the timeout."""
    path, _, query = url.removeprefix("sqlite:///").partition("?")
    path, parameters = unquote(path), dict(parse_qsl(query, keep_blank_values=True))
    file = Path(path)
    valid = url.startswith("sqlite:///") and path and not file.is_dir() and file.parent.is_dir()
    require(valid, name, "must be sqlite:///FILE, with a FILE in an existing folder.")
    timeout = parameters.pop("timeout", "5")
    require(re.fullmatch("[0-9]{1,4}", timeout), name, "has a timeout that is not a number of seconds.")
    require(not parameters, name, f"has the unknown parameter {', '.join(parameters)}. timeout is known.")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            # Take the write lock at the start. A read transaction that upgrades to a write can't wait for
            # the lock, and fails with "database is locked".
            "transaction_mode": "IMMEDIATE",
            "timeout": int(timeout),  # Seconds.
            # With NORMAL, a crash of the machine can undo the last commits, but that of a process can't.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def replicas(name: str) -> dict[str, dict[str, Any]]:
    """Build Django's settings for each streaming standby, with the aliases replica1, replica2 and so on.

    The value is one PostgreSQL URL, or several separated by commas. Each host of a URL is a replica.
    """
    value = text(name, "")
    if not value:
        return {}
    replicas = []
    for url in re.split(r",(?=postgres(?:ql)?://)", value):
        require(url.partition("://")[0] in POSTGRESQL_SCHEMES, name, "must start with postgresql://.")
        settings = postgresql(name, url)
        settings["STATEMENT_TIMEOUT"] = min(settings["STATEMENT_TIMEOUT"], REPLICA_STATEMENT_TIMEOUT)
        settings["TEST"] = {"MIRROR": "default"}
        hosts, ports = settings["HOST"].split(","), settings["PORT"].split(",")
        require(len(ports) in {1, len(hosts)}, name, "must have one port for all hosts, or one for each.")
        if len(ports) == 1:
            ports *= len(hosts)
        for host, port in zip(hosts, ports, strict=True):
            replicas.append(settings | {"HOST": host, "PORT": port})
    is_postgresql = text("DATABASE_URL", "").startswith("postgres")
    require(is_postgresql, name, "needs PostgreSQL: set DATABASE_URL to its URL.")
    return {f"replica{number}": settings for number, settings in enumerate(replicas, 1)}


def postgresql(name: str, url: str) -> dict[str, Any]:
    """Build Django's settings from a PostgreSQL URL, with persistent connections."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        parameters = dict(conninfo_to_dict(url))
        hosts = str(parameters.get("host") or "").split(",")
        parameters["host"] = ",".join(host if host[:1] in {"/", "@"} else to_ascii(host) for host in hosts)
    except (ProgrammingError, ValueError) as error:
        if unknown := re.search(r'invalid URI query parameter: "([\w.-]+)"', str(error)):
            raise ImproperlyConfigured(f"{name} has the unknown parameter {unknown[1]}.") from None
        reason = str(error).partition(': "')[0].strip()  # The rest may contain the password.
        raise ImproperlyConfigured(f"{name} is not a PostgreSQL URL: {reason}.") from None
    for port in str(parameters.get("port") or "").split(","):
        valid = not port or (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535)
        require(valid, name, f"has a port that is not a number from 1 to 65535: {port!r}.")
    timeout = str(parameters.get("connect_timeout", "0"))
    require(
        re.fullmatch("[0-9]{1,4}", timeout), name, "has a connect_timeout that is not a number of seconds."
    )
    require(parameters.get("dbname"), name, "does not name a database. Add /NAME to the end.")
    settings = {
        key.upper(): str(parameters.pop(key, None) or "") for key in ("user", "password", "host", "port")
    }
    prepare_statements = flag("DATABASE_PREPARED_STATEMENTS", default=True)
    return {
        "ENGINE": "petstore.db",
        "NAME": parameters.pop("dbname"),
        "CONN_MAX_AGE": None,
        "DISABLE_SERVER_SIDE_CURSORS": not prepare_statements,  # For poolers in transaction mode.
        **settings,
        # In milliseconds. It applies to processes that serve requests, not to commands.
        "STATEMENT_TIMEOUT": integer("DATABASE_STATEMENT_TIMEOUT", 5000, 100, 600_000),
        "OPTIONS": {
            "connect_timeout": integer("DATABASE_CONNECT_TIMEOUT", 2, 2, 60),
            # Give up on a silent host after about 15 seconds.
            "keepalives_idle": 5,
            "keepalives_interval": 3,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
            "application_name": "petstore",
            **parameters,
            # Prepare a statement when a connection executes it again.
            "server_side_binding": True,
            "prepare_threshold": 1 if prepare_statements else None,
        },
    }
