"""Typed reading of environment variables; a wrong value stops the start and names the variable."""

import os
import re
from datetime import datetime
from importlib.util import find_spec
from io import StringIO
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured, ValidationError
from dotenv.parser import parse_stream

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off"}
DISABLED = "PYTHON_DOTENV_DISABLED"  # As python-dotenv has it: no .env is read.
POSTGRESQL = {"postgres", "postgresql"}  # Schemes.

TRACING_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
REPLICA_STATEMENT_TIMEOUT = 1000  # Milliseconds; the primary is asked next.


def require(holds: object, name: str, otherwise: str) -> None:
    """Stop the start with what is wrong with a variable, unless something holds."""
    if not holds:
        raise ImproperlyConfigured(f"{name} {otherwise}")


def load(file: Path) -> None:
    """Set the variables of a .env file that the environment lacks, exactly as they are written."""
    if os.environ.get(DISABLED, "").lower() in TRUE or not file.exists():
        return
    try:
        # The environment can't hold NUL: it is as wrong as a byte that is not UTF-8.
        found = file.read_bytes().replace(b"\0", b"\xff").decode("utf-8-sig")
    except OSError as error:
        raise ImproperlyConfigured(f"{file} can't be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        message = f"{file}, line {line}, is not text in UTF-8. Save the file in that encoding."
        raise ImproperlyConfigured(message) from None
    named = {}
    for part in parse_stream(StringIO(found)):
        if part.key is None and not part.error:  # Comments and blank lines.
            continue
        written = part.original.string
        line = part.original.line + written[: -len(written.lstrip())].count("\n")
        sound = part.value is not None and re.fullmatch(r"[\w.-]+", part.key or "")
        require(sound, f"{file}, line {line},", "does not look like NAME=VALUE.")
        named[part.key or ""] = part.value or ""
    for name, value in named.items():
        os.environ.setdefault(name, value)


def text(name: str, default: str | None = None) -> str:
    """Return the variable; an empty one counts as absent. Absent without a default stops the start."""
    value = os.environ.get(name, "").strip() or default
    require(value is not None, name, "is not set. Set it in the environment or in .env.")
    stray = re.search("[\ud800-\udfff]", value or "")  # How Python keeps a stray byte.
    require(not stray, name, "is not text in UTF-8.")
    return value or ""


def flag(name: str, default: bool) -> bool:
    """Return a boolean written as 1/0, true/false, yes/no or on/off."""
    value = text(name, str(default)).lower()
    require(value in TRUE | FALSE, name, f"must be true or false, not {value!r}.")
    return value in TRUE


def integer(name: str, default: int, minimum: int, maximum: int) -> int:
    """Return a whole number within the bounds, both included."""
    value = text(name, str(default))
    sound = re.fullmatch(r"-?[0-9]{1,18}", value) and minimum <= int(value) <= maximum
    require(sound, name, f"must be a whole number from {minimum} to {maximum}, not {value!r}.")
    return int(value)


def choice(name: str, default: str, choices: tuple[str, ...]) -> str:
    value = text(name, default)
    require(value in choices, name, f"must be one of {', '.join(choices)}, not {value!r}.")
    return value


def words(name: str, default: str = "") -> list[str]:
    """Return the parts of a comma-separated list, without blanks."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def hosts(name: str, default: str) -> list[str]:
    """Return a comma-separated list of host names, as Django's ALLOWED_HOSTS takes them."""
    found = words(name, default)
    for host in found:
        sound = re.fullmatch(r"\*|\.?[A-Za-z0-9_-][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]", host)
        require(sound, name, f"must list host names without scheme or port, not {host!r}.")
    return found


def networks(name: str, default: str) -> list[str]:
    """Return a comma-separated list of networks in CIDR form."""
    found = words(name, default)
    for network in found:
        require(is_network(network), name, f"must list networks in CIDR form, not {network!r}.")
    return found


def is_network(value: str) -> bool:
    try:
        ip_network(value)
    except ValueError:
        return False
    return True


def api_url(name: str, default: str) -> str:
    """Return the absolute URL of an API base, which ends in /v1, without a trailing slash; or nothing."""
    value = text(name, default).rstrip("/")
    sound = not value or is_api_url(value)
    require(sound, name, f"must be an absolute http(s) URL that ends in /v1, not {value!r}.")
    return value[:5].lower() + value[5:]  # What https has must not hang on the spelling of the scheme.


def is_api_url(value: str) -> bool:
    """Tell whether the text is http(s)://HOST[:PORT][/PATH]/v1."""
    return is_page_url(value) and bool(re.fullmatch(r"(?i:https?)://[^/?#@]+[^?#@]*/v1", value))


def parts_of(url: str) -> SplitResult | None:
    """Return a URL's parts; None where its host is malformed, or its port no number from 1 to 65535."""
    try:
        parts = urlsplit(url)
        return parts if parts.port != 0 else None
    except ValueError:
        return None


def page_url(name: str) -> str:
    """Return the absolute http(s) URL of a page; empty for none."""
    value = text(name, "")
    sound = not value or is_page_url(value)
    require(sound, name, f"must be an absolute http(s) URL, not {value!r}.")
    return value


def is_page_url(value: str) -> bool:
    parts = parts_of(value)
    known = parts and parts.scheme in {"http", "https"} and parts.hostname
    return bool(known) and not re.search(r"[\s<>\"\\]", value)


def email(name: str) -> str:
    """Return an email address; empty for none."""
    value = text(name, "")
    require(not value or is_email(value), name, f"must be an email address, not {value!r}.")
    return value


def is_email(value: str) -> bool:
    from django.core.validators import validate_email  # A tenth of what settings take to load.

    try:
        validate_email(value)
    except ValidationError:
        return False
    return True


def contact(name: str) -> str:
    """Return a Contact of security.txt (RFC 9116 section 2.5.3): an https or mailto URI; empty for none."""
    value = text(name, "")
    scheme, _, rest = value.partition(":")
    sound = is_email(rest) if scheme == "mailto" else scheme == "https" and is_page_url(value)
    require(not value or sound, name, f"must start with https:// or mailto:, not {value!r}.")
    return value


def timestamp(name: str) -> datetime | None:
    """Return a date-time with its offset from UTC (RFC 3339); None where the variable is absent."""
    value = text(name, "")
    try:
        found = datetime.fromisoformat(value) if value else None
    except ValueError:
        found = None
    sound = not value or (found and found.tzinfo)
    require(sound, name, f"must be a date-time such as 2030-01-31T00:00:00Z, not {value!r}.")
    return found


def collector(name: str) -> str:
    """Return the URL that spans go to; empty for none. Stops the start if their packages are missing."""
    value = text(name, "")
    try:
        missing = [package for package in TRACING_PACKAGES if value and find_spec(package) is None]
    except ModuleNotFoundError as error:
        missing = [error.name or TRACING_PACKAGES[0]]
    how = "pip install --require-hashes -r requirements-otel.txt, or unset it."
    require(not missing, name, f"is set, but {', '.join(missing[:1])} is not installed: {how}")
    return value


def redis_url(name: str) -> str:
    """Return the URL of a Redis server, or of any node of a cluster; empty where none is used."""
    value = text(name, "")
    known = not value or value.partition("://")[0] in {"redis", "rediss", "unix"}
    require(known, name, "must start with redis://, rediss:// or unix://.")
    require(parts_of(value), name, "is not a Redis URL: its host or its port is wrong.")
    return value


def peppers(name: str, default: str | None) -> dict[int, bytes]:
    """Return the numbered secrets of `1:secret,2:secret`, by number."""
    found: dict[int, bytes] = {}
    for part in text(name, default).split(","):
        number, _, secret = part.strip().partition(":")
        sound = re.fullmatch(r"[1-9][0-9]{0,3}", number) and secret and int(number) not in found
        require(sound, name, "must look like 1:secret,2:secret with numbers from 1 to 9999, each once.")
        found[int(number)] = secret.encode()
    return found


def pepper_number(name: str, among: dict[int, bytes]) -> int | None:
    """Return the number of one of the peppers; None where the variable is absent."""
    number = integer(name, 0, 0, 9999)
    known = not number or number in among
    require(known, name, f"must be the number of one of API_KEY_PEPPERS, not {number}.")
    return number or None


def database(name: str, default: str) -> dict[str, Any]:
    """Return Django's database settings for `sqlite:///file` or any PostgreSQL URL libpq reads.

    Libpq's own parser reads the PostgreSQL form, so several hosts, sockets and parameters work as
    its documentation says (section "Connection URIs").
    """
    url = text(name, default)
    scheme = url.partition("://")[0]
    if scheme == "sqlite":
        return sqlite(name, url)
    require(scheme in POSTGRESQL, name, "must start with sqlite:/// or postgresql://.")
    return postgresql(name, url)


def sqlite(name: str, url: str) -> dict[str, Any]:
    """SQLite for one machine: readers never wait, writers queue instead of failing."""
    path = unquote(url.removeprefix("sqlite:///"))
    file = Path(path)
    sound = url.startswith("sqlite:///") and path and not file.is_dir() and file.parent.is_dir()
    require(sound, name, "must be sqlite:///FILE, with FILE in a folder that exists.")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            # A transaction takes the write lock at its start: an upgrade from read to write in
            # the middle can't wait and would fail with "database is locked".
            "transaction_mode": "IMMEDIATE",
            "timeout": 5,  # Seconds to wait for another writer.
            # NORMAL loses nothing when a process dies; only a power cut can undo the last moments.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def replicas(name: str) -> dict[str, dict[str, Any]]:
    """Return Django's settings of each streaming standby of DATABASE_URL, by alias: replica1, replica2, ...

    The value is one PostgreSQL URL or several, separated by commas; each host of a URL is a replica.
    """
    value = text(name, "")
    found = []
    for url in re.split(r",(?=postgres(?:ql)?://)", value) if value else []:
        require(url.partition("://")[0] in POSTGRESQL, name, "must start with postgresql://.")
        settings = postgresql(name, url)
        settings["STATEMENT_TIMEOUT"] = min(settings["STATEMENT_TIMEOUT"], REPLICA_STATEMENT_TIMEOUT)
        settings["TEST"] = {"MIRROR": "default"}
        hosts, ports = settings["HOST"].split(","), settings["PORT"].split(",")
        require(len(ports) in {1, len(hosts)}, name, "must give each host a port, or one port to all.")
        ports *= len(hosts) if len(ports) == 1 else 1
        found += [settings | {"HOST": host, "PORT": port} for host, port in zip(hosts, ports, strict=True)]
    if found:
        needed = text("DATABASE_URL", "").startswith("postgres")
        require(needed, name, "needs a DATABASE_URL of PostgreSQL.")
        why = "Redis remembers for all workers which account wrote just now."
        require(text("REDIS_URL", ""), name, f"needs REDIS_URL: {why}")
    return {f"replica{number}": settings for number, settings in enumerate(found, 1)}


def postgresql(name: str, url: str) -> dict[str, Any]:
    """PostgreSQL, with a connection for each thread that serves. A pool would cost a tenth of a read."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        parameters = dict(conninfo_to_dict(url))
    except ProgrammingError as error:
        reason = str(error).partition(': "')[0].strip()  # What follows may hold the password.
        raise ImproperlyConfigured(f"{name} is not a PostgreSQL URL: {reason}.") from None
    for port in str(parameters.get("port") or "").split(","):
        sound = not port or (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535)
        require(sound, name, f"has a port that is no number from 1 to 65535: {port!r}.")
    require(parameters.get("dbname"), name, "names no database: end it with /NAME.")
    settings = {
        key.upper(): str(parameters.pop(key, None) or "") for key in ("user", "password", "host", "port")
    }
    prepared = flag("DATABASE_PREPARED_STATEMENTS", default=True)
    limit = integer("DATABASE_STATEMENT_TIMEOUT", 5000, 100, 600_000)
    return {
        "ENGINE": "petstore.db",
        "NAME": parameters.pop("dbname"),
        "CONN_MAX_AGE": None,
        "DISABLE_SERVER_SIDE_CURSORS": not prepared,  # A pooler between that hands out transactions.
        **settings,
        "STATEMENT_TIMEOUT": limit,  # Milliseconds, in a process that serves.
        "OPTIONS": {
            "connect_timeout": integer("DATABASE_CONNECT_TIMEOUT", 2, 2, 60),
            # A host that fell silent is given up in about 15 seconds where nothing notices earlier.
            "keepalives_idle": 5,
            "keepalives_interval": 3,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
            "application_name": "petstore",
            **parameters,
            # The server reads and plans a statement once for each connection, not once for each run.
            "server_side_binding": True,
            "prepare_threshold": 1 if prepared else None,
        },
    }
