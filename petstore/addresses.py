"""URLs, email addresses and hosts: which ones are valid, and their form in ASCII."""

import re
import unicodedata
from collections.abc import Callable
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from django.core.exceptions import ValidationError
from django.utils.encoding import iri_to_uri

DEFAULT_PORTS = {"http": 80, "https": 443}


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


def accepts(parse: Callable[[str], object], value: str) -> bool:
    """Whether a parser or validator accepts the value."""
    try:
        parse(value)
    except (ValueError, ValidationError):
        return False
    return True


def is_host(value: str) -> bool:
    """Whether it has the syntax of ALLOWED_HOSTS: a host without port, `.example.com` or `*`."""
    pattern = r"\*|\.?[A-Za-z0-9_-][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]"
    return accepts(to_ascii, value) and bool(re.fullmatch(pattern, to_ascii(value)))


def is_api_url(value: str) -> bool:
    return is_page_url(value) and bool(re.fullmatch(r"(?i:https?)://[^/?#@]+[^?#@]*/v1", value))


def is_page_url(value: str) -> bool:
    parts = split_url(value)
    valid = parts and parts.scheme in {"http", "https"} and parts.hostname
    return bool(valid) and not re.search(r"[\s<>\"\\]", value)


def is_email(value: str) -> bool:
    from django.core.validators import validate_email  # Slow to import.

    return accepts(validate_email, value) and accepts(to_ascii, value)


def is_contact(value: str) -> bool:
    if value.startswith("mailto:"):
        return is_email(value.removeprefix("mailto:"))
    return value.startswith("https:") and is_page_url(value)


def is_this_machine(host: str | None) -> bool:
    """Whether the host of a URL is localhost or a loopback address."""
    host = host or ""
    return host == "localhost" or (accepts(ip_address, host) and ip_address(host).is_loopback)
