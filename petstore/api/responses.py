"""The response class of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from django.http import HttpResponse
from rest_framework import response as drf


class Response:
    """A response with a JSON body, or without a body.

    The event loop sends it directly. Django's class checks each header and DRF's renders late, which is too
    slow for the request path.
    """

    __slots__ = ("content", "exception", "headers", "status_code")  # DRF sets `exception`.

    def __init__(
        self, data: Any = None, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Encode `data` as JSON; None stands for no body."""
        self.status_code = status
        self.headers = dict(headers) if headers else {}
        self.content = b""
        if data is not None:
            self.headers["Content-Type"] = "application/json"
            self.content = orjson.dumps(data, option=orjson.OPT_UTC_Z)

    @classmethod
    def from_bytes(cls, body: bytes, status: int, headers: Mapping[str, str]) -> Response:
        response = cls(None, status, headers)
        response.headers["Content-Type"] = "application/json"
        response.content = body
        return response

    def to_django(self) -> HttpResponse:
        response = HttpResponse(self.content, status=self.status_code, headers=self.headers)
        if "Content-Type" not in self.headers:
            del response["Content-Type"]
        return response


def from_drf(response: Response | drf.Response) -> Response:
    """Convert a response of DRF's own class, such as its mixins build. Returns ours unchanged."""
    if isinstance(response, Response):
        return response
    headers = {name: value for name, value in response.items() if name != "Content-Type"}
    return Response(response.data, response.status_code, headers)
