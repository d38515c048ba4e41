"""Deployments that break the contract: a proxy before the running service, which changes its answers."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.live import Service


@dataclass
class Reply:
    """An answer on its way through the proxy, which may change it."""

    method: str
    path: str
    asked: dict[str, str]
    status: int
    headers: Message
    body: bytes
    seen: dict[str, Any] = field(default_factory=dict)  # What a variant remembers from reply to reply.

    @property
    def rows(self) -> Any:
        return json.loads(self.body)

    def become(self, value: Any) -> None:
        self.body = json.dumps(value).encode()


Variant = Callable[[Reply], object]


@contextmanager
def broken(service: Service, variant: Variant) -> Iterator[str]:
    """Serve the service through a proxy that changes its answers; yield the base URL."""
    seen: dict[str, Any] = {}
    upstream = urlsplit(service.url)

    class Proxy(BaseHTTPRequestHandler):
        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection = http.client.HTTPConnection(upstream.netloc, timeout=30)
            connection.request(self.command, self.path, body or None, dict(self.headers))
            answer = connection.getresponse()
            headers = Message()
            for name, value in answer.getheaders():
                headers[name] = value.replace(f"{service.url}/v1", f"http://{self.headers['Host']}/v1")
            reply = Reply(
                self.command, self.path, dict(self.headers), answer.status, headers, answer.read(), seen
            )
            connection.close()
            variant(reply)
            self.send_response_only(reply.status)
            for name, value in reply.headers.items():
                if name.lower() not in {"content-length", "connection", "transfer-encoding"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = pass_on

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


# --- What can break; beside each, the check that finds it ----------------------------------------


def without(header: str) -> Variant:
    """Drop a header from all answers."""
    return lambda reply: reply.headers.__delitem__(header)


def with_other(header: str, other: Callable[[Reply, str], str]) -> Variant:
    """Change the value of a header where it is there."""

    def change(reply: Reply) -> None:
        if value := reply.headers[header]:
            reply.headers.replace_header(header, other(reply, value))

    change.__name__ = other.__name__
    return change


def remaining_never_falls(reply: Reply) -> None:
    caller = reply.asked.get("Authorization", "")
    for header in ("X-RateLimit-Remaining", "RateLimit"):
        with_other(header, lambda reply, value: reply.seen.setdefault(header + caller, value))(reply)  # noqa: B023


def remaining_contradicts(reply: Reply, value: str) -> str:
    return str(int(value) + 7)


def reset_in_milliseconds(reply: Reply, value: str) -> str:
    return value + "000"


def plain_404(reply: Reply) -> None:
    if reply.status == 404:
        reply.become({"detail": "Not found."})


def link_from_the_host_header(reply: Reply, value: str) -> str:
    return value.replace("127.0.0.1", "internal.example.com")


def link_forgets_the_filter(reply: Reply, value: str) -> str:
    return value.replace("&status=available", "").replace("status=available&", "")


def page_lacks_a_row(reply: Reply) -> None:
    if reply.path.startswith("/v1/pets?") and "cursor=" in reply.path and reply.status == 200:
        reply.become(reply.rows[1:])


def page_repeats_a_row(reply: Reply) -> None:
    if reply.path.startswith("/v1/pets") and reply.method == "GET" and reply.status == 200:
        query = parse_qs(urlsplit(reply.path).query)
        rows = reply.rows
        if "cursor" in query:
            reply.become([reply.seen["last"], *rows[:-1]])
        elif isinstance(rows, list) and rows:
            reply.seen["last"] = rows[-1]


def filters_are_ignored(reply: Reply) -> None:
    if reply.path.startswith("/v1/pets?") and "status=" in reply.path and reply.status == 200:
        reply.become([row | {"status": "sold"} for row in reply.rows])


def last_page_names_a_next(reply: Reply) -> None:
    if reply.path.startswith("/v1/categories?") and "cursor" in reply.path and "Link" not in reply.headers:
        reply.headers["link"] = f'<http://{reply.asked["Host"]}{reply.path}>; rel="next"'


def etag_is_ignored(reply: Reply) -> None:
    if reply.status == 304:
        reply.status = 200
        reply.headers["content-type"] = "application/json"
        reply.body = b"[]"


def ids_are_strings(reply: Reply) -> None:
    if reply.path.startswith("/v1/pets") and reply.method == "GET" and reply.status == 200 and reply.body:
        rows = reply.rows
        for row in rows if isinstance(rows, list) else [rows]:
            row["id"] = str(row["id"])
        reply.become(rows)


def too_soon(reply: Reply) -> None:
    """Refuse the 20th request, without a Retry-After."""
    reply.seen["requests"] = reply.seen.get("requests", 0) + 1
    if reply.path.startswith("/v1/") and reply.seen["requests"] >= 20:
        reply.status = 429
        reply.headers["content-type"] = "application/json"
        reply.become({"code": "rate_limit_exceeded", "message": "Wait.", "status": 429})


def other_media_type_is_400(reply: Reply) -> None:
    if reply.status == 415:
        reply.status = 400
        reply.become({"code": "malformed_json", "message": "No JSON.", "status": 400})


def status_is_not_documented(reply: Reply) -> None:
    if reply.path.startswith("/v1/categories") and reply.status == 200:
        reply.status = 203


def every_code_is_another(reply: Reply) -> None:
    if reply.path.startswith("/v1/") and reply.status >= 400:
        reply.become(reply.rows | {"code": "cursor_expired"})


def anyone_may_read(reply: Reply) -> None:
    if reply.status == 401:
        reply.status = 200
        reply.become([])


def sold_twice(reply: Reply) -> None:
    if reply.status == 409 and b"pet_not_available" in reply.body:
        reply.status = 201


def in_account(change: Callable[[Reply, Any], object]) -> Variant:
    """Change what the account shows of its quota."""

    def vary(reply: Reply) -> None:
        if reply.path == "/v1/account" and reply.status == 200:
            shown = reply.rows
            change(reply, shown["quota"])
            reply.become(shown)

    vary.__name__ = change.__name__
    return vary


def account_costs_one(reply: Reply, quota: Any) -> None:
    reply.seen["looks"] = reply.seen.get("looks", 0) + 1
    quota["day"]["used"] += reply.seen["looks"]


def account_contradicts_the_headers(reply: Reply, quota: Any) -> None:
    quota["minute"]["remaining"] += 7


# --- The feed


def in_feed(change: Callable[[Reply, list[Any]], object]) -> Variant:
    """Change the pages of the feed that have events."""

    def vary(reply: Reply) -> None:
        if reply.path.startswith("/v1/events?") and reply.status == 200 and (events := reply.rows):
            change(reply, events)

    vary.__name__ = change.__name__
    return vary


def event_comes_twice(reply: Reply, events: list[Any]) -> None:
    reply.become([events[0], *events])


def event_comes_again_under_another_id(reply: Reply, events: list[Any]) -> None:
    reply.become([*events, events[-1] | {"id": events[-1]["id"] + 1}])


def event_is_lost(reply: Reply, events: list[Any]) -> None:
    reply.become([event for event in events if event["type"] != "order.cancelled"])


def newest_first(reply: Reply, events: list[Any]) -> None:
    reply.become(events[::-1])


def event_tells_of_another_status(reply: Reply, events: list[Any]) -> None:
    for event in events:
        if event["type"] == "pet.status_changed":
            event["data"]["pet"]["status"] = "sold"
    reply.become(events)


def event_ids_are_strings(reply: Reply, events: list[Any]) -> None:
    reply.become([event | {"id": str(event["id"])} for event in events])


def second_time_is_shorter(reply: Reply, events: list[Any]) -> None:
    seen = reply.seen.setdefault("pages", set())
    if reply.path in seen:
        reply.become(events[1:])
    seen.add(reply.path)


def type_is_ignored(reply: Reply, events: list[Any]) -> None:
    if "type=order" in reply.path:
        reply.become([reply.seen["event"], *events])
    reply.seen.setdefault("event", events[0])


def any_cursor_will_do(reply: Reply) -> None:
    if reply.path.startswith("/v1/events?cursor=conformance"):
        reply.status = 200
        reply.become([])


def feed_begins_before_a_time_to_come(reply: Reply) -> None:
    if reply.path.startswith("/v1/events") and "since=9999" in reply.path:
        at = "2026-11-23T09:30:00Z"
        reply.become([{"id": 1, "type": "pet.created", "createdAt": at, "data": {}}])


FOLLOWED = "feed_tells_once_of_all_that_was_written"
VARIANTS: list[tuple[Variant, str]] = [
    (without("X-RateLimit-Remaining"), "every_answer_tells_the_quota"),
    (without("X-Request-Id"), "every_answer_has_an_id_of_its_own"),
    (without("WWW-Authenticate"), "missing_key_is_refused"),
    (without("Sunset"), "deprecation_is_announced"),
    (without("Allow"), "wrong_method_names_the_right_ones"),
    (without("Vary"), "caches_keep_callers_apart"),
    (remaining_never_falls, "every_request_costs"),
    (with_other("X-RateLimit-Remaining", remaining_contradicts), "every_answer_tells_the_quota"),
    (with_other("X-RateLimit-Reset", reset_in_milliseconds), "every_answer_tells_the_quota"),
    (plain_404, "unknown_path_is_an_error"),
    (with_other("Link", link_from_the_host_header), "lists_come_in_pages"),
    (with_other("Link", link_forgets_the_filter), "filters_are_obeyed"),
    (page_lacks_a_row, "lists_come_in_pages"),
    (page_repeats_a_row, "lists_come_in_pages"),
    (last_page_names_a_next, "lists_come_in_pages"),
    (filters_are_ignored, "filters_are_obeyed"),
    (etag_is_ignored, "etag_saves_the_body"),
    (ids_are_strings, "every_answer_is_documented"),
    (too_soon, "refusal_says_when_to_come_back"),
    (other_media_type_is_400, "other_media_type_is_refused"),
    (status_is_not_documented, "every_answer_is_documented"),
    (anyone_may_read, "missing_key_is_refused"),
    (without("Idempotent-Replayed"), "pet_is_added_ordered_and_free_again"),
    (in_account(account_costs_one), "account_tells_what_is_left_and_is_free"),
    (in_account(account_contradicts_the_headers), "account_tells_what_is_left_and_is_free"),
    *(
        (in_feed(change), FOLLOWED)
        for change in (
            event_comes_twice,
            event_comes_again_under_another_id,
            event_is_lost,
            newest_first,
            event_tells_of_another_status,
            second_time_is_shorter,
            type_is_ignored,
        )
    ),
    (in_feed(event_ids_are_strings), "every_answer_is_documented"),
    (without("Link"), "feed_ends_where_it_goes_on"),
    (feed_begins_before_a_time_to_come, "feed_ends_where_it_goes_on"),
    (any_cursor_will_do, "bad_places_in_the_feed_are_refused"),
    (sold_twice, "pet_is_added_ordered_and_free_again"),
]
