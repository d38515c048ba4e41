"""Parsers of environment variables.

They raise ImproperlyConfigured, with the name of the variable, for an invalid value.
"""

import os
import re
from collections.abc import Callable
from datetime import datetime
from importlib.util import find_spec
from io import StringIO
from ipaddress import ip_network
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from dotenv.parser import parse_stream

from petstore import addresses
from petstore.addresses import accepts, to_ascii

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off"}
TRACING_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


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
        valid = addresses.is_host(host)
        require(valid, name, f"must list host names without scheme or port, not {host!r}.")
    return [to_ascii(host) for host in values]


def networks(name: str, default: str) -> list[str]:
    """Get a comma-separated list of networks in CIDR notation, or of single addresses."""
    values = comma_separated(name, default)
    for network in values:
        valid = accepts(ip_network, network)
        require(valid, name, f"must list networks in CIDR notation, not {network!r}.")
    return values


def host_and_port(name: str) -> str:
    """Get `http://host:port` as host:port. It may be empty."""
    value = text(name, "").removesuffix("/")
    parts = addresses.split_url(value) if value else None
    valid = not value or (parts and re.fullmatch(r"http://[^/?#@]+:[0-9]+", value) and parts.hostname)
    require(valid, name, f"must look like http://proxy.internal:4750, not {value!r}.")
    return value.removeprefix("http://")


def optional(name: str, is_valid: Callable[[str], bool], description: str, default: str = "") -> str:
    """Get a variable that is empty or valid. The description says what is valid."""
    value = text(name, default)
    require(not value or is_valid(value), name, f"must be {description}, not {value!r}.")
    return value


def api_url(name: str, default: str) -> str:
    """Get the absolute base URL of an API, which ends in /v1. It may be empty."""
    description = "an absolute http(s) URL that ends in /v1"
    value = optional(name, lambda value: addresses.is_api_url(value.rstrip("/")), description, default)
    return to_ascii(value.rstrip("/"))


def page_url(name: str) -> str:
    """Get an absolute URL. It may be empty."""
    return to_ascii(optional(name, addresses.is_page_url, "an absolute http(s) URL"))


def email(name: str) -> str:
    """Get an email address. It may be empty."""
    return to_ascii(optional(name, addresses.is_email, "an email address"))


def contact(name: str) -> str:
    """Get an https or mailto URI (Contact in RFC 9116 section 2.5.3). It may be empty."""
    return to_ascii(optional(name, addresses.is_contact, "an https:// URL or a mailto: address"))


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
