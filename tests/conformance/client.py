"""The HTTP client of the conformance suite, which leaves a share of each window of the key's quota."""

import re
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlsplit

import pytest
from requests import PreparedRequest, Response, Session

from petstore.addresses import is_api_url

TIMEOUT_SECONDS = 30
RESERVED_SHARE = 0.25  # Of the smaller window, for other users of the key.
LONGEST_WAIT_SECONDS = 65  # Enough for the next minute window, but not for the next day.
DEFAULT_LIMIT = 20
Row = dict[str, Any]


def parse_quota(response: Response) -> tuple[int, int, int]:
    """Return the X-RateLimit headers: limit, remaining, and the Unix time of the reset."""
    names = ("Limit", "Remaining", "Reset")
    limit, remaining, reset = (int(response.headers[f"X-RateLimit-{name}"]) for name in names)
    return limit, remaining, reset


def parse_windows(response: Response) -> dict[str, tuple[int, int]]:
    """Return the windows of RateLimit (D28): requests remaining, and seconds until the reset."""
    windows = re.findall(r'"(\w+)";r=(\d+);t=(\d+)', response.headers["RateLimit"])
    return {name: (int(remaining), int(seconds)) for name, remaining, seconds in windows}


def parse_date(response: Response) -> float:
    return parsedate_to_datetime(response.headers["Date"]).timestamp()


def expect_members(row: Row, expected: Row) -> None:
    assert {name: row[name] for name in expected} == expected


def expect_error(response: Response, status: int, code: str) -> Row:
    """Return the body of an Error (D29)."""
    assert response.status_code == status, response.text
    body: Row = response.json()
    assert (body["code"], body["status"]) == (code, status)
    return body


def is_from_proxy(response: Response) -> bool:
    """Whether a proxy rejected the URL before the service (D30)."""
    return response.status_code in {400, 414, 431} and "X-Request-Id" not in response.headers


class Client(Session):
    """Sends requests to a deployment with a key, and records the responses."""

    def __init__(self, url: str, key: str, wait: Callable[[float], None] = time.sleep) -> None:
        super().__init__()
        self.url = url.rstrip("/")
        self.credentials = {"Authorization": f"Bearer {key}"}
        self.headers.update(self.credentials | {"User-Agent": "petstore-conformance"})
        self.wait = wait
        self.responses: list[Response] = []
        self.authenticated_responses: list[Response] = []
        self.incomplete = ""  # Why a rule was not checked.
        self.left_behind: list[str] = []
        # Set by the rules of writes: what the feed has to report, by subject, and from where.
        self.expected_events: dict[str, list[tuple[str, Row]]] = {}
        self.feed_end = ""

    def request(self, method: str, url: str, *args: Any, **options: Any) -> Response:  # type: ignore[override]
        """Send a request to a path under /v1, or to a URL. Redirects are not followed."""
        defaults = {"timeout": TIMEOUT_SECONDS, "allow_redirects": False}
        return super().request(method, self.url + url if url.startswith("/") else url, **defaults | options)

    def send(self, request: PreparedRequest, **options: Any) -> Response:
        authenticated = self.credentials.items() <= request.headers.items()
        if authenticated:
            self.spare_quota()
        response = super().send(request, **options)
        if str(request.url).startswith(f"{self.url}/") and not is_from_proxy(response):
            self.responses.append(response)
        if authenticated and not is_from_proxy(response):
            self.authenticated_responses.append(response)
            if response.status_code == 403 and b'"insufficient_scope"' in response.content:
                self.skip("The key lacks a scope. Use a key with all scopes.")
        return response

    def spare_quota(self) -> None:
        """Wait for the next minute, or skip the test, rather than use what is reserved of the quota."""
        if not self.authenticated_responses:
            return
        last = self.authenticated_responses[-1]
        if last.status_code == 429:
            self.skip("A request got 429. No more are sent, to avoid a ban.")
        try:
            limit, remaining, reset = parse_quota(last)
            seconds = reset - parse_date(last) + 1
        except (KeyError, ValueError):  # Another test reports it.
            return
        if remaining <= limit * RESERVED_SHARE:
            if seconds > LONGEST_WAIT_SECONDS:
                self.skip(f"Only {remaining} of {limit} requests remain.")
            self.wait(seconds)

    def skip(self, reason: str) -> NoReturn:
        """Skip the test, and let the run fail in the end, because it is incomplete."""
        self.incomplete = reason
        pytest.skip(reason)

    def fetch_page(self, path: str, *, is_feed: bool = False) -> tuple[list[Row], str]:
        """Fetch a page of a list or of the feed. Return its rows, and the path of the next page or ""."""
        response = self.get(path)
        assert response.status_code == 200, response.text
        rows = response.json()
        link = re.search(r'<([^<>]*)>; rel="next"', response.headers.get("Link", ""))
        query = dict(parse_qsl(urlsplit(path).query))
        if is_feed:
            assert link, "D40: every page of the feed has a next link."
        else:
            limit = int(query.get("limit", DEFAULT_LIMIT))
            assert len(rows) == limit or (len(rows) < limit and not link), "D9: the page is incomplete."
        if link is None:
            return rows, ""
        assert link[1].startswith(f"{self.url}/"), "D10: the next page is on another host."
        filters = {name: value for name, value in query.items() if name not in {"cursor", "since"}}
        next_query = dict(parse_qsl(urlsplit(link[1]).query))
        assert "cursor" in next_query
        assert next_query | filters == next_query, "D9: the next page lacks a part of the query."
        return rows, link[1].removeprefix(self.url)


def connect(url: str, key: str) -> Client:
    """Return a client of the deployment, or end the run if it has no such address or key."""
    if not is_api_url(url):
        pytest.exit(f"{url!r} is not an API address such as https://api.example.com/v1.", 2)
    if not (key and key.isascii() and key.isprintable()):
        pytest.exit("Set KEY to an API key with all scopes.", 2)
    client = Client(url, key)
    try:
        response = client.get("/categories?limit=1")
    except OSError as error:
        pytest.exit(f"{url} does not respond: {error}", 2)
    if response.status_code == 401:
        pytest.exit("The deployment rejects the key. Is it complete, and of this deployment?", 2)
    return client
