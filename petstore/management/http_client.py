"""The HTTP client of `manage.py listen` and `manage.py doctor`."""

from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import orjson

TIMEOUT_SECONDS = 30
NO_HEADERS: Mapping[str, str] = {}


class UnreachableError(Exception):
    """No response."""


@dataclass(frozen=True)
class Response:
    status: int
    headers: Message
    body: bytes

    def json(self) -> Any:
        """Decode the body. Raises ValueError for another media type or invalid JSON."""
        if self.headers.get_content_type() != "application/json":
            raise ValueError(f"the media type is {self.headers.get_content_type()}.")
        return orjson.loads(self.body)


def send(
    method: str, url: str, headers: Mapping[str, str] = NO_HEADERS, body: bytes = b"",
    *, timeout: float = TIMEOUT_SECONDS,
) -> Response:  # fmt: skip
    """Send a request without following redirects. Raises UnreachableError."""
    parts = urlsplit(url)
    connection_class = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connection_class(parts.netloc, timeout=timeout)
    try:
        target = parts._replace(scheme="", netloc="", path=parts.path or "/", fragment="").geturl()
        connection.request(method, target, body or None, dict(headers))
        with connection.getresponse() as response:
            return Response(response.status, response.headers, response.read())
    except (OSError, HTTPException, ValueError) as error:
        base = url.partition("?")[0]
        reason = str(error) or type(error).__name__
        raise UnreachableError(f"{base} does not respond to {method}: {reason}.") from None
    finally:
        connection.close()
