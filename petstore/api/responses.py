"""The response class of the API, and the headers that let clients cache lists and other reads."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import md5
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse

EMPTY_PAGE = b"[]"


class Response:
    """A response with a JSON body, or without a body.

    The event loop sends it directly. Django's class checks each header and DRF's renders late, which is too
    slow for the request path.
    """

    __slots__ = ("content", "headers", "status_code")

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


def make_conditional(request: HttpRequest, response: Response) -> None:
    """Set the ETag, and respond to a matching If-None-Match with 304 (D32, RFC 9110 section 13.1.2)."""
    digest = md5(response.content, usedforsecurity=False)
    if response.content != EMPTY_PAGE:  # A 304 may update the link of an empty page of the feed (D40).
        digest.update(response.headers.get("Link", "").encode())
    etag = response.headers["ETag"] = f'"{digest.hexdigest()}"'
    response.headers["Cache-Control"] = "private, no-cache"  # Store, but revalidate.
    if_none_match = request.META.get("HTTP_IF_NONE_MATCH", "")
    # The quotes are part of the tag, so the list need not be parsed.
    if etag in if_none_match or if_none_match.strip() == "*":
        response.status_code = 304
        response.content = b""
        del response.headers["Content-Type"]
