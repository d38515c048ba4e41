"""One request to a deployment and its answer, with the standard library's HTTP client."""

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.utils import parsedate_to_datetime
from time import time
from typing import Any
from urllib.parse import SplitResult

import orjson

from petstore.conformance.findings import BrokenError, UnreachableError

TIMEOUT_SECONDS = 30


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

    def header(self, name: str) -> str:
        """Return a header. Raises BrokenError without it."""
        value: str | None = self.headers[name]
        if value is None:
            raise BrokenError(f"{self.sent}: the header {name} is missing.")
        return value

    def number(self, name: str) -> int:
        """Return a header that is a whole number. Raises BrokenError for anything else."""
        value = self.header(name)
        if not (value.isascii() and value.isdigit()):
            raise BrokenError(f"{self.sent}: {name} is {value!r}, not a whole number.")
        return int(value)

    def json(self) -> Any:
        """Return the body's value. Raises BrokenError unless it is JSON and says so."""
        media_type = self.header("Content-Type").partition(";")[0].strip()
        if media_type != "application/json":
            raise BrokenError(f"{self.sent}: the media type is {media_type!r}, not 'application/json'.")
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
    body: bytes | None,
    keyed: bool,
) -> Answer:
    """Send one request and return its answer; redirects are not followed. Raises UnreachableError."""
    secure = server.scheme == "https"
    connection: http.client.HTTPConnection
    if secure:
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(server.netloc, timeout=TIMEOUT_SECONDS, context=context)
    else:
        connection = http.client.HTTPConnection(server.netloc, timeout=TIMEOUT_SECONDS)
    try:
        connection.request(method, path, body=body, headers=dict(headers))
        response = connection.getresponse()
        content = response.read()
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise UnreachableError(f"{server.geturl()} gives no answer to {method}: {reason}.") from None
    finally:
        connection.close()
    return Answer(f"{method} {path[:200]}", response.status, response.headers, content, keyed)
