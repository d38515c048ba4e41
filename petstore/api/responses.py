"""What a request under /v1 is answered with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from django.http import HttpResponse


class Response:
    """An answer whose body is JSON in UTF-8, or empty.

    The event loop sends it as it is. Neither Django's response nor DRF's is made for it there: their checks
    of each header and their rendering took a seventh of a request.
    """

    __slots__ = ("content", "headers", "status_code")

    def __init__(
        self, data: Any = None, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Make the body of `data`; None stands for an empty one."""
        self.status_code = status
        self.headers = dict(headers) if headers else {}
        self.content = b""
        if data is not None:
            self.headers["Content-Type"] = "application/json"
            self.content = orjson.dumps(data, option=orjson.OPT_UTC_Z)

    @classmethod
    def of_bytes(cls, body: bytes, status: int, headers: Mapping[str, str]) -> Response:
        """Return an answer with a body that is JSON already."""
        response = cls(None, status, headers)
        response.headers["Content-Type"] = "application/json"
        response.content = body
        return response

    def as_django(self) -> HttpResponse:
        """Return the same for Django's handlers."""
        response = HttpResponse(self.content, status=self.status_code, headers=self.headers)
        if "Content-Type" not in self.headers:
            del response["Content-Type"]
        return response
