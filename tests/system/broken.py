"""Deployments that break the contract: a proxy that modifies the running service's responses."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx

from tests.conformance import test_rules as rules
from tests.support.live import Service
from tests.system.clients.faulty_proxy import forward, proxy


@dataclass
class Reply:
    """A response on its way through the proxy, which may modify it."""

    method: str
    path: str
    request_headers: dict[str, str]
    status: int
    headers: dict[str, str]
    body: bytes
    seen: dict[str, Any] = field(default_factory=dict)  # What a variant stores between responses.

    @property
    def value(self) -> Any:
        return json.loads(self.body)

    def replace(self, value: Any, status: int = 0) -> None:
        self.body = json.dumps(value).encode()
        self.status = status or self.status
        self.headers["content-type"] = "application/json"

    def is_page_of(self, path: str, query: str = "") -> bool:
        """Whether this is a page of a list, or a row of it."""
        return (
            self.path.startswith(path) and query in self.path and (self.method, self.status) == ("GET", 200)
        )


Variant = Callable[[Reply], object]


@contextmanager
def broken(service: Service, variant: Variant) -> Iterator[str]:
    """Serve through a proxy that modifies the service's responses; yield the base URL."""
    seen: dict[str, Any] = {}

    def modify(handler: BaseHTTPRequestHandler, response: httpx.Response) -> None:
        own_url = f"http://{handler.headers['Host']}/v1"
        headers = {
            name: value.replace(f"{service.url}/v1", own_url)
            for name, value in response.headers.items()
            if name != "content-length"
        }
        sent = dict(handler.headers)
        reply = Reply(
            handler.command, handler.path, sent, response.status_code, headers, response.content, seen
        )
        variant(reply)
        forward(handler, httpx.Response(reply.status, headers=reply.headers, content=reply.body))

    with proxy(service, otherwise=modify) as before:
        yield f"{before.url}/v1"


# --- Variants; beside each, the rule that finds it ----------------------------------------------


def without(name: str, path: str = "/v1/") -> Variant:
    """Remove a header from a path's responses."""

    def modify(reply: Reply) -> None:
        for sent in list(reply.headers):
            if reply.path.startswith(path) and sent.lower() == name.lower():
                del reply.headers[sent]

    return modify


def status(old: int, new: int, path: str = "/v1/", code: bytes = b"") -> Variant:
    """Replace one status of a path's responses, and in their Error bodies."""

    def modify(reply: Reply) -> None:
        if reply.status == old and reply.path.startswith(path) and code in reply.body:
            reply.status = new

    return modify


def replaced(old: int, value: Any, new: int = 0, path: str = "/v1/") -> Variant:
    """Replace the body of a path's responses with one status, and the status itself unless it is 0."""

    def modify(reply: Reply) -> None:
        if reply.status == old and reply.path.startswith(path):
            reply.replace(value, new)

    return modify


def body(path: str, change: Callable[[Any, Reply], Any], query: str = "") -> Variant:
    """Change the pages of a list, or another GET response."""

    def modify(reply: Reply) -> None:
        if reply.is_page_of(path, query) and reply.body:
            reply.replace(change(reply.value, reply))

    return modify


def feed(change: Callable[[list[Any], Reply], Any]) -> Variant:
    """Change pages of the feed that are not empty."""
    return body("/v1/events?", lambda events, reply: change(events, reply) if events else events)


def remaining_never_falls(reply: Reply) -> None:
    for name, value in list(reply.headers.items()):
        if name.lower() in {"x-ratelimit-remaining", "ratelimit"}:
            reply.headers[name] = reply.seen.setdefault(
                name + reply.request_headers.get("Authorization", ""), value
            )


def repeat_a_row(rows: Any, reply: Reply) -> Any:
    if "cursor=" in reply.path:
        return [reply.seen["last"], *rows[:-1]]
    if isinstance(rows, list) and rows:
        reply.seen["last"] = rows[-1]
    return rows


def with_string_ids(rows: Any, reply: Reply) -> Any:
    return [row | {"id": str(row["id"])} for row in rows]


def rejected_without_retry_after(reply: Reply) -> None:
    """Reject the 20th request, without a Retry-After."""
    reply.seen["requests"] = reply.seen.get("requests", 0) + 1
    if reply.path.startswith("/v1/") and reply.seen["requests"] >= 20:
        reply.replace({"code": "rate_limit_exceeded", "message": "Wait.", "status": 429}, 429)


def with_wrong_error_codes(reply: Reply) -> None:
    if reply.path.startswith("/v1/") and reply.status >= 400:
        reply.replace(reply.value | {"code": "cursor_expired"})


def reading_the_account_uses_quota(account: Any, reply: Reply) -> Any:
    reply.seen["reads"] = reply.seen.get("reads", 0) + 1
    account["quota"]["day"]["used"] += reply.seen["reads"]
    return account


# --- The feed


def shorter_on_the_second_read(events: list[Any], reply: Reply) -> list[Any]:
    seen = reply.seen.setdefault("pages", set())
    shown = events[1:] if reply.path in seen else events
    seen.add(reply.path)
    return shown


FEED_RULE = rules.test_feed_reports_every_write_once
VARIANTS: list[tuple[Variant, Callable[..., None]]] = [
    (without("X-RateLimit-Remaining"), rules.test_every_response_reports_the_quota),
    (without("X-Request-Id"), rules.test_every_response_has_a_unique_request_id_and_vary),
    (without("Sunset"), rules.test_deprecation_is_announced),
    (without("Idempotent-Replayed"), rules.test_pet_is_created_ordered_and_released),
    (without("Link", "/v1/events"), rules.test_feed_end_has_a_cursor),
    (remaining_never_falls, rules.test_every_request_uses_quota),
    (rejected_without_retry_after, rules.test_every_429_has_retry_after),
    (status(404, 400, code=b"pet_not_found"), rules.test_request_is_rejected),
    (status(409, 201, code=b"pet_not_available"), rules.test_pet_is_created_ordered_and_released),
    (replaced(304, [], 200), rules.test_matching_etag_gives_304_and_head_matches_get),
    (body("/v1/pets", repeat_a_row), rules.test_lists_are_paginated),
    (
        body("/v1/pets?", lambda rows, _: [row | {"status": "sold"} for row in rows], "status="),
        rules.test_filters_are_applied,
    ),
    (body("/v1/pets?", with_string_ids), rules.test_every_response_is_documented),
    (body("/v1/account", reading_the_account_uses_quota), rules.test_account_reports_quota_for_free),
    (feed(lambda events, _: [*events, events[-1] | {"id": events[-1]["id"] + 1}]), FEED_RULE),
    (feed(lambda events, _: [event for event in events if event["type"] != "order.cancelled"]), FEED_RULE),
    (feed(shorter_on_the_second_read), FEED_RULE),
]
