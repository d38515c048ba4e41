"""Typed environment variables. An invalid value stops the start with a message that names the variable."""

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
DISABLED = "PYTHON_DOTENV_DISABLED"  # python-dotenv's variable.
POSTGRESQL = {"postgres", "postgresql"}  # Schemes.

TRACING_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
REPLICA_STATEMENT_TIMEOUT = 1000  # Milliseconds; then the primary is read.


def require(condition: object, name: str, problem: str) -> None:
    """Raise ImproperlyConfigured, naming the variable, unless the condition holds."""
    if not condition:
        raise ImproperlyConfigured(f"{name} {problem}")


def load(file: Path) -> None:
    """Set the variables of a .env file that the environment lacks, without interpolation."""
    if os.environ.get(DISABLED, "").lower() in TRUE or not file.exists():
        return
    try:
        # The environment can't hold NUL, so treat it like an invalid byte.
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
        valid = part.value is not None and re.fullmatch(r"[\w.-]+", part.key or "")
        require(valid, f"{file}, line {line},", "does not look like NAME=VALUE.")
        named[part.key or ""] = part.value or ""
    for name, value in named.items():
        os.environ.setdefault(name, value)


def text(name: str, default: str | None = None) -> str:
    """Get a variable; empty counts as unset. Without a default, it is required."""
    value = os.environ.get(name, "").strip() or default
    require(value is not None, name, "is not set. Set it in the environment or in .env.")
    stray = re.search("[\ud800-\udfff]", value or "")  # Python's form of an undecodable byte.
    require(not stray, name, "is not text in UTF-8.")
    return value or ""


def flag(name: str, default: bool) -> bool:
    value = text(name, str(default)).lower()
    require(value in TRUE | FALSE, name, f"must be true or false, not {value!r}.")
    return value in TRUE


def integer(name: str, default: int, minimum: int, maximum: int) -> int:
    """Get an integer within the bounds, both inclusive."""
    value = text(name, str(default))
    valid = re.fullmatch(r"-?[0-9]{1,18}", value) and minimum <= int(value) <= maximum
    require(valid, name, f"must be a whole number from {minimum} to {maximum}, not {value!r}.")
    return int(value)


def choice(name: str, default: str, choices: tuple[str, ...]) -> str:
    value = text(name, default)
    require(value in choices, name, f"must be one of {', '.join(choices)}, not {value!r}.")
    return value


def words(name: str, default: str = "") -> list[str]:
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def hosts(name: str, default: str) -> list[str]:
    """Get a comma-separated list of host names, in the syntax of ALLOWED_HOSTS."""
    found = words(name, default)
    for host in found:
        valid = re.fullmatch(r"\*|\.?[A-Za-z0-9_-][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]", host)
        require(valid, name, f"must list host names without scheme or port, not {host!r}.")
    return found


def networks(name: str, default: str) -> list[str]:
    """Get a comma-separated list of networks in CIDR notation."""
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
    """Get the absolute base URL of an API, which ends in /v1, without a trailing slash; may be empty."""
    value = text(name, default).rstrip("/")
    valid = not value or is_api_url(value)
    require(valid, name, f"must be an absolute http(s) URL that ends in /v1, not {value!r}.")
    return value[:5].lower() + value[5:]  # Settings compare the scheme with https://.


def is_api_url(value: str) -> bool:
    return is_page_url(value) and bool(re.fullmatch(r"(?i:https?)://[^/?#@]+[^?#@]*/v1", value))


def parts_of(url: str) -> SplitResult | None:
    """Split a URL; None if its host is malformed or its port is not between 1 and 65535."""
    try:
        parts = urlsplit(url)
        return parts if parts.port != 0 else None
    except ValueError:
        return None


def page_url(name: str) -> str:
    value = text(name, "")
    valid = not value or is_page_url(value)
    require(valid, name, f"must be an absolute http(s) URL, not {value!r}.")
    return value


def is_page_url(value: str) -> bool:
    parts = parts_of(value)
    valid = parts and parts.scheme in {"http", "https"} and parts.hostname
    return bool(valid) and not re.search(r"[\s<>\"\\]", value)


def email(name: str) -> str:
    value = text(name, "")
    require(not value or is_email(value), name, f"must be an email address, not {value!r}.")
    return value


def is_email(value: str) -> bool:
    from django.core.validators import validate_email  # Slow to import.

    try:
        validate_email(value)
    except ValidationError:
        return False
    return True


def contact(name: str) -> str:
    """Get a Contact of security.txt (RFC 9116 section 2.5.3): an https or mailto URI; may be empty."""
    value = text(name, "")
    scheme, _, rest = value.partition(":")
    valid = is_email(rest) if scheme == "mailto" else scheme == "https" and is_page_url(value)
    require(not value or valid, name, f"must start with https:// or mailto:, not {value!r}.")
    return value


def timestamp(name: str) -> datetime | None:
    """Get a date-time with a UTC offset (RFC 3339), or None."""
    value = text(name, "")
    try:
        found = datetime.fromisoformat(value) if value else None
    except ValueError:
        found = None
    valid = not value or (found and found.tzinfo)
    require(valid, name, f"must be a date-time such as 2030-01-31T00:00:00Z, not {value!r}.")
    return found


def collector(name: str) -> str:
    """Get the URL that spans are sent to; may be empty. Requires OpenTelemetry's packages."""
    value = text(name, "")
    try:
        missing = [package for package in TRACING_PACKAGES if value and find_spec(package) is None]
    except ModuleNotFoundError as error:
        missing = [error.name or TRACING_PACKAGES[0]]
    how = "pip install --require-hashes -r requirements-otel.txt, or unset it."
    require(not missing, name, f"is set, but {', '.join(missing[:1])} is not installed: {how}")
    return value


def redis_url(name: str) -> str:
    """Get the URL of a Redis server, or of any node of a cluster; may be empty."""
    value = text(name, "")
    valid = not value or value.partition("://")[0] in {"redis", "rediss", "unix"}
    require(valid, name, "must start with redis://, rediss:// or unix://.")
    require(parts_of(value), name, "is not a Redis URL: its host or its port is wrong.")
    return value


def peppers(name: str, default: str | None) -> dict[int, bytes]:
    """Parse `1:secret,2:secret` to secrets by number."""
    found: dict[int, bytes] = {}
    for part in text(name, default).split(","):
        number, _, secret = part.strip().partition(":")
        valid = re.fullmatch(r"[1-9][0-9]{0,3}", number) and secret and int(number) not in found
        require(valid, name, "must look like 1:secret,2:secret with numbers from 1 to 9999, each once.")
        found[int(number)] = secret.encode()
    return found


def pepper_number(name: str, among: dict[int, bytes]) -> int | None:
    number = integer(name, 0, 0, 9999)
    valid = not number or number in among
    require(valid, name, f"must be the number of one of API_KEY_PEPPERS, not {number}.")
    return number or None


def database(name: str, default: str) -> dict[str, Any]:
    """Build Django's database settings from `sqlite:///file` or a PostgreSQL URL.

    PostgreSQL URLs are parsed by libpq, including several hosts, sockets and parameters (section
    "Connection URIs" of its documentation).
    """
    url = text(name, default)
    scheme = url.partition("://")[0]
    if scheme == "sqlite":
        return sqlite(name, url)
    require(scheme in POSTGRESQL, name, "must start with sqlite:/// or postgresql://.")
    return postgresql(name, url)


def sqlite(name: str, url: str) -> dict[str, Any]:
    """Configure SQLite for one machine: readers never wait, writers queue instead of failing."""
    path = unquote(url.removeprefix("sqlite:///"))
    file = Path(path)
    valid = url.startswith("sqlite:///") and path and not file.is_dir() and file.parent.is_dir()
    require(valid, name, "must be sqlite:///FILE, with FILE in a folder that exists.")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            # Take the write lock at the start: upgrading a read transaction can't wait, and fails with
            # "database is locked".
            "transaction_mode": "IMMEDIATE",
            "timeout": 5,  # Seconds.
            # NORMAL loses nothing when a process dies; only a power failure can undo the last commits.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def replicas(name: str) -> dict[str, dict[str, Any]]:
    """Build Django's settings of each streaming standby, by alias: replica1, replica2, ...

    The value is one PostgreSQL URL or several, separated by commas. Each host of a URL is a replica.
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
    """Configure PostgreSQL with a persistent connection per serving thread."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        parameters = dict(conninfo_to_dict(url))
    except ProgrammingError as error:
        reason = str(error).partition(': "')[0].strip()  # The rest may contain the password.
        raise ImproperlyConfigured(f"{name} is not a PostgreSQL URL: {reason}.") from None
    for port in str(parameters.get("port") or "").split(","):
        valid = not port or (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535)
        require(valid, name, f"has a port that is no number from 1 to 65535: {port!r}.")
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
        "DISABLE_SERVER_SIDE_CURSORS": not prepared,  # For poolers in transaction mode.
        **settings,
        "STATEMENT_TIMEOUT": limit,  # Milliseconds, in serving processes.
        "OPTIONS": {
            "connect_timeout": integer("DATABASE_CONNECT_TIMEOUT", 2, 2, 60),
            # Give up a silent host after about 15 seconds.
            "keepalives_idle": 5,
            "keepalives_interval": 3,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
            "application_name": "petstore",
            **parameters,
            # Prepare each statement once per connection.
            "server_side_binding": True,
            "prepare_threshold": 1 if prepared else None,
        },
    }
