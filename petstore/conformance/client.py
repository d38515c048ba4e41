"""One HTTP request and its response, for the checks and for `manage.py listen`, and where it goes."""

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

from petstore.environment import is_api_url

Headers = dict[str, str]
NEXT = re.compile(r'<([^<>]*)>; rel="next"')
TIMEOUT_SECONDS = 30
WRONG_OPTIONS = 2


class BrokenError(Exception):
    """A response is not what the contract says."""


class UnreachableError(Exception):
    """No response came."""


@dataclass(frozen=True)
class Response:
    """A response, and what was requested: method and path with its query.

    Its methods raise BrokenError where it is not as they say.
    """

    request: str
    status: int
    headers: Message
    body: bytes

    @property
    def now(self) -> float:
        """The Unix time of the response, by the deployment's clock."""
        return parsedate_to_datetime(self.header("Date")).timestamp()

    def expect(self, holds: object, otherwise: str) -> None:
        if not holds:
            raise BrokenError(f"{self.request}: {otherwise}")

    def expect_equal(self, what: str, found: object, wanted: object) -> None:
        self.expect(found == wanted, f"{what} is {found!r}, not {wanted!r}.")

    def expect_status(self, status: int, what: str = "") -> "Response":
        self.expect(self.status == status, f"{what}answers {self.status}, not {status}.")
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
            raise BrokenError(f"{self.request}: the body is not JSON: {error}.") from None


def exchange(base: str, method: str, path: str, headers: Headers, body: bytes | None = None) -> Response:
    """Send one request and return its response; redirects are not followed. Raises UnreachableError."""
    parts = urlsplit(base + path)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.netloc, timeout=TIMEOUT_SECONDS)
    try:
        target = parts._replace(scheme="", netloc="", path=parts.path or "/", fragment="").geturl()
        connection.request(method, target, body, headers)
        with connection.getresponse() as response:
            content = response.read()
    except (OSError, HTTPException, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise UnreachableError(f"{base} gives no answer to {method}: {reason}.") from None
    finally:
        connection.close()
    return Response(f"{method} {path[:200]}", response.status, response.headers, content)


def add_key(parser: ArgumentParser, what: str) -> None:
    text = f"{what} Better in PETSTORE_KEY: a shell remembers options."
    parser.add_argument("--key", help=text)


def address_and_key(options: dict[str, Any]) -> tuple[str, str]:
    """Return the API's address and the key, from the options or PETSTORE_KEY. Raises CommandError."""
    url = options["url"].rstrip("/")
    if not is_api_url(url):
        text = f"{options['url']!r} is not the address of an API, such as https://api.example.com/v1."
        raise CommandError(text, returncode=WRONG_OPTIONS)
    key = (options["key"] or os.environ.get("PETSTORE_KEY", "")).strip()
    if not key or not (key.isascii() and key.isprintable()):
        raise CommandError("Name a key with --key, or in PETSTORE_KEY.", returncode=WRONG_OPTIONS)
    return url, key
