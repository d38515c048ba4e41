"""One request to a deployment and its answer, with the standard library's HTTP client."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from time import time
from typing import Any
from urllib.parse import SplitResult

import orjson

TIMEOUT_SECONDS = 30


class BrokenError(Exception):
    """The deployment does not do what the contract says."""


class NothingToCheckError(Exception):
    """The deployment has nothing to check this on, for example no animals. That is no fault."""


class NotRunError(Exception):
    """The check could not be carried out: the quota is low, or the key lacks a scope."""


class UnreachableError(Exception): ...


@dataclass(frozen=True)
class Answer:
    """What came back. `sent` says what was asked: method and path with its query."""

    sent: str
    status: int
    headers: Message
    body: bytes
    keyed: bool  # Whether the key was sent.
    came_at: float = field(default_factory=time)  # Unix time, by our clock.

    @property
    def now(self) -> float:
        """The Unix time of the answer, by the deployment's clock if it tells it."""
        try:
            return parsedate_to_datetime(self.headers["Date"]).timestamp()
        except (TypeError, ValueError):
            return self.came_at

    def expect(self, holds: object, otherwise: str) -> None:
        """Raise BrokenError with this sentence about the answer unless something holds."""
        if not holds:
            raise BrokenError(f"{self.sent}: {otherwise}")

    def expect_status(self, status: int, what: str = "") -> "Answer":
        """Return the answer. Raises BrokenError, with what it was asked with, for another status."""
        self.expect(self.status == status, f"{what}answers {self.status}, not {status}.")
        return self

    def header(self, name: str) -> str:
        """Return a header. Raises BrokenError without it."""
        self.expect(name in self.headers, f"the header {name} is missing.")
        return str(self.headers[name])

    def number(self, name: str) -> int:
        """Return a header that is a whole number. Raises BrokenError for anything else."""
        value = self.header(name)
        self.expect(value.isascii() and value.isdigit(), f"{name} is {value!r}, not a whole number.")
        return int(value)

    def json(self) -> Any:
        """Return the body's value. Raises BrokenError unless it is JSON and says so."""
        media_type = self.header("Content-Type").partition(";")[0].strip()
        self.expect(
            media_type == "application/json", f"the media type is {media_type!r}, not 'application/json'."
        )
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise BrokenError(f"{self.sent}: the body is not JSON: {error}.") from None


def exchange(
    server: SplitResult,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    keyed: bool = False,
) -> Answer:
    """Send one request and return its answer; redirects are not followed. Raises UnreachableError."""
    kind = HTTPSConnection if server.scheme == "https" else HTTPConnection
    connection = kind(server.netloc, timeout=TIMEOUT_SECONDS)
    try:
        connection.request(method, path, body=body, headers=dict(headers))
        response = connection.getresponse()
        content = response.read()
    except (OSError, HTTPException, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise UnreachableError(f"{server.geturl()} gives no answer to {method}: {reason}.") from None
    finally:
        connection.close()
    return Answer(f"{method} {path[:200]}", response.status, response.headers, content, keyed)
