"""The HTTP client of `manage.py listen` and `manage.py doctor`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import urllib3
from urllib3.exceptions import HTTPError

TIMEOUT_SECONDS = 30


class UnreachableError(Exception):
    """No response."""


@dataclass(frozen=True)
class Response:
    status: int
    headers: Any  # A mapping whose names ignore case.
    body: bytes

    def json(self) -> Any:
        """Decode the body. Raises ValueError for invalid JSON."""
        return orjson.loads(self.body)


def send(
    method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b"",
    *, timeout: float = TIMEOUT_SECONDS,
) -> Response:  # fmt: skip
    """Send a request without following redirects. Raises UnreachableError."""
    try:
        with urllib3.PoolManager(retries=False, timeout=timeout) as http:
            response = http.request(method, url, body=body or None, headers=headers, redirect=False)
        return Response(response.status, response.headers, response.data)
    except HTTPError as error:
        reason = str(error.__cause__ or error) or type(error).__name__
        raise UnreachableError(f"{url.partition('?')[0]} does not respond to {method}: {reason}.") from None
