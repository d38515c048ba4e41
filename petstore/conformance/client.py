"""The HTTP client and common options of `manage.py conformance` and `manage.py listen`."""

import os
import re
from argparse import ArgumentParser
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import orjson
from django.core.management.base import CommandError

from petstore.environment import is_api_url, to_ascii

Headers = dict[str, str]
NEXT_LINK = re.compile(r'<([^<>]*)>; rel="next"')
TIMEOUT_SECONDS = 30
INVALID_OPTIONS = 2


class ViolationError(Exception):
    """A response violates the contract."""


class UnreachableError(Exception):
    """The deployment sent no response."""


@dataclass(frozen=True)
class Response:
    """A response, with assertions that raise ViolationError."""

    request: str  # Method and path with query, truncated.
    status: int
    headers: Message
    body: bytes

    @property
    def date(self) -> float:
        """The time in the Date header, as Unix time."""
        return parsedate_to_datetime(self.header("Date")).timestamp()

    def expect(self, condition: object, problem: str) -> None:
        if not condition:
            raise ViolationError(f"{self.request}: {problem}")

    def expect_equal(self, name: str, actual: object, expected: object) -> None:
        self.expect(actual == expected, f"{name} is {actual!r}, not {expected!r}.")

    def expect_status(self, status: int, context: str = "") -> "Response":
        self.expect(self.status == status, f"{context}the status is {self.status}, not {status}.")
        return self

    def header(self, name: str) -> str:
        self.expect(name in self.headers, f"the header {name} is missing.")
        return str(self.headers[name])

    def json(self) -> Any:
        media_type = self.header("Content-Type").partition(";")[0].strip()
        self.expect_equal("the media type", media_type, "application/json")
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise ViolationError(f"{self.request}: the body is not JSON: {error}.") from None


def exchange(
    base: str, method: str, path: str, headers: Headers, body: bytes | None = None,
    *, timeout: float = TIMEOUT_SECONDS,
) -> Response:  # fmt: skip
    """Send one request without following redirects. Raises UnreachableError."""
    url_parts = urlsplit(base + path)
    connection_class = HTTPSConnection if url_parts.scheme == "https" else HTTPConnection
    connection = connection_class(url_parts.netloc, timeout=timeout)
    try:
        target = url_parts._replace(scheme="", netloc="", path=url_parts.path or "/", fragment="").geturl()
        connection.request(method, target, body, headers)
        with connection.getresponse() as response:
            content = response.read()
    except (OSError, HTTPException, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise UnreachableError(f"{base} does not respond to {method}: {reason}.") from None
    finally:
        connection.close()
    return Response(f"{method} {path[:200]}", response.status, response.headers, content)


def add_key_option(parser: ArgumentParser, description: str) -> None:
    help_text = f"{description} Prefer PETSTORE_KEY, since shells record options in their history."
    parser.add_argument("--key", help=help_text)


def get_url_and_key(options: dict[str, Any]) -> tuple[str, str]:
    """Return the valid URL and key from the options and PETSTORE_KEY. Raises CommandError."""
    url = options["url"].rstrip("/")
    if not is_api_url(url):
        message = f"{options['url']!r} is not an API address such as https://api.example.com/v1."
        raise CommandError(message, returncode=INVALID_OPTIONS)
    key = (options["key"] or os.environ.get("PETSTORE_KEY", "")).strip()
    if not key or not (key.isascii() and key.isprintable()):
        raise CommandError("Pass a key with --key or PETSTORE_KEY.", returncode=INVALID_OPTIONS)
    return to_ascii(url), key
