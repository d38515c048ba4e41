"""Responses of the API: errors, and pages of lists."""

import re
from collections.abc import Iterator
from typing import Any

from tests.conftest import Api

NEXT = re.compile(r'<http://testserver/v1([^>]+)>; rel="next"')


def get_error(response: Any) -> tuple[int, str]:
    """Return the status and the code. Check that the Error is well-formed."""
    body = response.json()
    assert body.keys() - {"details"} == {"code", "message", "status"}
    assert body["status"] == response.status_code
    assert body["message"]
    return response.status_code, body["code"]


def get_next_path(response: Any) -> str | None:
    match = NEXT.fullmatch(response.headers.get("Link", ""))
    return match[1] if match else None


def follow_pages(api: Api, path: str) -> Iterator[list[dict[str, Any]]]:
    """Follow Link through all pages."""
    next_path: str | None = path
    while next_path:
        response = api.get(next_path)
        assert response.status_code == 200
        yield response.json()
        next_path = get_next_path(response)
