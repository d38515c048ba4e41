"""Parsers of environment variables.

They raise ImproperlyConfigured, with the name of the variable, for an invalid value.
"""

import os
import re
import unicodedata
from collections.abc import Callable
from datetime import datetime
from importlib.util import find_spec
from io import StringIO
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.utils.encoding import iri_to_uri
from dotenv.parser import parse_stream

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off"}
POSTGRESQL_SCHEMES = {"postgres", "postgresql"}
DEFAULT_PORTS = {"http": 80, "https": 443}

TRACING_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
REPLICA_STATEMENT_TIMEOUT = 1000  # Milliseconds. A read that exceeds it is retried on the primary.


def require(condition: object, name: str, problem: str) -> None:
    """Raise ImproperlyConfigured with the name of the variable unless the condition is true."""
    if not condition:
        raise ImproperlyConfigured(f"{name} {problem}")


def load(file: Path) -> None:
    """Set the variables of a .env file that are not set yet, without interpolation."""
    if os.environ.get("PYTHON_DOTENV_DISABLED", "").lower() in TRUE or not file.exists():
        return
    try:
        # A variable can't contain NUL, so treat NUL as an invalid byte.
        content = file.read_bytes().replace(b"\0", b"\xff").decode("utf-8-sig")
    except OSError as error:
        raise ImproperlyConfigured(f"{file} can't be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        message = f"{file}, line {line}, is not valid UTF-8. Save the file in that encoding."
        raise ImproperlyConfigured(message) from None
    variables = {}
    for binding in parse_stream(StringIO(content)):
        if binding.key is None and not binding.error:  # A comment or a blank line.
            continue
        source = binding.original.string
        # The parser counts preceding blank lines as part of the binding.
        line = binding.original.line + source[: -len(source.lstrip())].count("\n")
        valid = binding.value is not None and re.fullmatch(r"[\w.-]+", binding.key or "")
        require(valid, f"{file}, line {line},", "is not of the form NAME=VALUE.")
        variables[binding.key or ""] = binding.value or ""
    for name, value in variables.items():
        os.environ.setdefault(name, value)


def text(name: str, default: str | None = None) -> str:
    """Get a variable, stripped; an empty one counts as not set. Without a default, it is required."""
    value = os.environ.get(name, "").strip() or default
    require(value is not None, name, "is not set. Set it in the environment or in .env.")
    surrogate = re.search("[\ud800-\udfff]", value or "")  # Python decodes invalid bytes as surrogates.
    require(not surrogate, name, "is not valid UTF-8.")
    return value or ""


def flag(name: str, default: bool) -> bool:
    value = text(name, str(default)).lower()
    require(value in TRUE | FALSE, name, f"must be true or false, not {value!r}.")
    return value in TRUE


def integer(name: str, default: int, minimum: int, maximum: int) -> int:
    """Get an integer from `minimum` to `maximum`, both inclusive."""
    value = text(name, str(default))
    valid = re.fullmatch(r"-?[0-9]{1,18}", value) and minimum <= int(value) <= maximum
    require(valid, name, f"must be a whole number from {minimum} to {maximum}, not {value!r}.")
    return int(value)


def choice(name: str, default: str, choices: tuple[str, ...]) -> str:
    value = text(name, default)
    require(value in choices, name, f"must be one of {', '.join(choices)}, not {value!r}.")
    return value


def comma_separated(name: str, default: str = "") -> list[str]:
    return [item.strip() for item in text(name, default).split(",") if item.strip()]


def hosts(name: str, default: str) -> list[str]:
    """Get a comma-separated list of host names, in the syntax of ALLOWED_HOSTS."""
    values = comma_separated(name, default)
    for host in values:
        valid = accepts(to_ascii, host) and re.fullmatch(
            r"\*|\.?[A-Za-z0-9_-][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]", to_ascii(host)
        )
        require(valid, name, f"must list host names without scheme or port, not {host!r}.")
    return [to_ascii(host) for host in values]


def networks(name: str, default: str) -> list[str]:
    """Get a comma-separated list of networks in CIDR notation, or of single addresses."""
    values = comma_separated(name, default)
    for network in values:
        valid = accepts(ip_network, network)
        require(valid, name, f"must list networks in CIDR notation, not {network!r}.")
    return values


def accepts(parse: Callable[[str], object], value: str) -> bool:
    """Whether a parser or validator accepts the value."""
    try:
        parse(value)
    except (ValueError, ValidationError):
        return False
    return True


def optional(name: str, is_valid: Callable[[str], bool], description: str) -> str:
    """Get a variable that is empty or valid. The description says what is valid."""
    value = text(name, "")
    require(not value or is_valid(value), name, f"must be {description}, not {value!r}.")
    return value


def api_url(name: str, default: str) -> str:
    """Get the absolute base URL of an API, which ends in /v1. It may be empty."""
    value = text(name, default).rstrip("/")
    valid = not value or is_api_url(value)
    require(valid, name, f"must be an absolute http(s) URL that ends in /v1, not {value!r}.")
    return to_ascii(value)


def is_api_url(value: str) -> bool:
    return is_page_url(value) and bool(re.fullmatch(r"(?i:https?)://[^/?#@]+[^?#@]*/v1", value))


def split_url(url: str) -> SplitResult | None:
    """Split a URL, in the form that browsers and headers use: in ASCII, without a default port.

    Return None if its host is malformed or its port is not from 1 to 65535.
    """
    try:
        parts = urlsplit(url)
        userinfo, at, _ = parts.netloc.rpartition("@")
        host, port = to_ascii(parts.hostname or ""), parts.port
    except ValueError:
        return None
    netloc = userinfo + at + (f"[{host}]" if ":" in host else host)
    if port is not None and port != DEFAULT_PORTS.get(parts.scheme):
        netloc += f":{port}"
    return SplitResult(parts.scheme, netloc, *map(iri_to_uri, parts[2:])) if port != 0 else None


def to_ascii(address: str) -> str:
    """Encode a URL, an email address or a host in ASCII (Punycode, percent-encoding).

    Raises ValueError for a host that is invalid, or that browsers don't encode like Python (IDNA 2003).
    """
    if "://" in address and (parts := split_url(address)):
        return parts.geturl()
    local, at, host = address.rpartition("@")
    return local + at + ".".join(map(encode_label, host.lower().split(".")))


def encode_label(label: str) -> str:
    if label.isascii():
        return label
    encoded = label.encode("idna")
    if encoded.decode("idna") != unicodedata.normalize("NFKC", label):
        raise ValueError(f"{label!r} must be in Punycode.")
    return encoded.decode()


def page_url(name: str) -> str:
    """Get an absolute URL. It may be empty."""
    return to_ascii(optional(name, is_page_url, "an absolute http(s) URL"))


def is_page_url(value: str) -> bool:
    parts = split_url(value)
    valid = parts and parts.scheme in {"http", "https"} and parts.hostname
    return bool(valid) and not re.search(r"[\s<>\"\\]", value)


def email(name: str) -> str:
    """Get an email address. It may be empty."""
    return to_ascii(optional(name, is_email, "an email address"))


def is_email(value: str) -> bool:
    from django.core.validators import validate_email  # Slow to import.

    return accepts(validate_email, value) and accepts(to_ascii, value)


def contact(name: str) -> str:
    """Get an https or mailto URI (Contact in RFC 9116 section 2.5.3). It may be empty."""
    return to_ascii(optional(name, is_contact, "an https:// URL or a mailto: address"))


def is_contact(value: str) -> bool:
    if value.startswith("mailto:"):
        return is_email(value.removeprefix("mailto:"))
    return value.startswith("https:") and is_page_url(value)


def timestamp(name: str) -> datetime | None:
    """Get a date-time with a UTC offset (RFC 3339), or None if it is not set."""
    value = optional(name, is_timestamp, "a date-time such as 2030-01-31T00:00:00Z")
    return datetime.fromisoformat(value) if value else None


def is_timestamp(value: str) -> bool:
    return accepts(datetime.fromisoformat, value) and datetime.fromisoformat(value).tzinfo is not None


def collector(name: str) -> str:
    """Get the URL that spans are sent to. It may be empty, and otherwise needs OpenTelemetry's packages."""
    value = text(name, "")
    advice = "Run pip install --require-hashes -r requirements-otel.txt, or unset the variable."
    for package in TRACING_PACKAGES if value else ():
        require(is_installed(package), name, f"is set, but {package} is not installed. {advice}")
    return value


def is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # A parent package is missing.
        return False


def is_this_machine(host: str | None) -> bool:
    """Whether the host of a URL is localhost or a loopback address."""
    host = host or ""
    return host == "localhost" or (accepts(ip_address, host) and ip_address(host).is_loopback)


def mail_server(name: str) -> dict[str, Any]:
    """Convert `smtp://user:password@host:port?from=address` to Django's settings, or {} if it is unset.

    `smtp` requires STARTTLS, except on this machine, and `smtps` uses TLS from the start.
    """
    value = text(name, "")
    if not value:
        return {}
    url = split_url(value)
    valid = url is not None and url.scheme in {"smtp", "smtps"} and url.hostname
    require(valid, name, "must look like smtp://user:password@host:587?from=shop@example.com.")
    assert url is not None
    parameters = dict(parse_qsl(url.query))
    sender = parameters.pop("from", "")
    is_address = "@" in sender and not re.search(r"[\s<>,]", sender) and accepts(to_ascii, sender)
    require(is_address, name, "must name a sender: ?from=address.")
    require(not parameters, name, f"has the unknown parameter {', '.join(parameters)}.")
    return {
        "EMAIL_BACKEND": "petstore.mail.outbox.OutboxBackend",
        "EMAIL_HOST": url.hostname,
        "EMAIL_PORT": url.port or (465 if url.scheme == "smtps" else 587),
        "EMAIL_HOST_USER": unquote(url.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(url.password or ""),
        "EMAIL_USE_SSL": url.scheme == "smtps",
        "EMAIL_USE_TLS": url.scheme == "smtp" and not is_this_machine(url.hostname),
        "DEFAULT_FROM_EMAIL": to_ascii(sender),
    }


def peppers(name: str, default: str | None) -> dict[int, bytes]:
    """Parse `1:secret,2:secret` into secrets by number."""
    secrets: dict[int, bytes] = {}
    for item in text(name, default).split(","):
        number, _, secret = item.strip().partition(":")
        valid = re.fullmatch(r"[1-9][0-9]{0,3}", number) and secret and int(number) not in secrets
        require(valid, name, "must look like 1:secret,2:secret, with unique numbers from 1 to 9999.")
        secrets[int(number)] = secret.encode()
    return secrets


def pepper_number(name: str, secrets: dict[int, bytes]) -> int | None:
    number = integer(name, 0, 0, 9999)
    valid = not number or number in secrets
    require(valid, name, f"must be a number that API_KEY_PEPPERS contains, not {number}.")
    return number or None


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
        if unknown := re.search(r'invalid URI query parameter: "(\w+)"', str(error)):
            raise ImproperlyConfigured(f"{name} has the unknown parameter {unknown[1]}.") from None
        reason = str(error).partition(': "')[0].strip()  # The rest may contain the password.
        raise ImproperlyConfigured(f"{name} is not a PostgreSQL URL: {reason}.") from None
    for port in str(parameters.get("port") or "").split(","):
        valid = not port or (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535)
        require(valid, name, f"has a port that is not a number from 1 to 65535: {port!r}.")
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
