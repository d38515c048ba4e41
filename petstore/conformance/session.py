"""The requests of one run: with the key, within a budget, never against a quota that is nearly used up."""

import re
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

from petstore.conformance.answers import (
    Answer,
    BrokenError,
    NothingToCheckError,
    NotRunError,
    UnreachableError,
)
from petstore.conformance.contract import check_answer

Headers = dict[str, str]
NONE: Headers = {}
TIMEOUT_SECONDS = 30
NEXT = re.compile(r'<([^<>]*)>; rel="next"')


class Session:
    """A deployment, and every answer that it gave."""

    def __init__(self, url: str, key: str, *, budget: int, keep: int) -> None:
        """`url` is the contract's {base_url}; `keep` the requests that stay for the key's own users."""
        self.url = url.rstrip("/")
        self.server = urlsplit(self.url)
        self.key = key
        self.budget = budget
        self.keep = keep
        self.answers: list[Answer] = []  # Those under /v1.
        self.first_pages: dict[str, Any] = {}  # Of the lists, rows by path: no need to ask again.
        self.feed_end: str | None = None  # Where the feed ended before anything was written.
        self.written: list[tuple[str, Any]] = []  # Types and data of the events that the feed must have.
        self.left_behind: list[str] = []
        self.spent = 0  # Requests with the key.
        self.remaining: int | None = None
        self.refused = False

    def send(
        self, method: str, path: str, body: Any = None, *, headers: Headers = NONE, keyed: bool = True
    ) -> Answer:
        """Send a request under the base URL; a body that is not bytes goes as JSON.

        Raises NotRunError rather than use up the budget or the quota, or where the key lacks a scope.
        """
        sent: Headers = {}
        if keyed:
            self.spare_quota()
            sent["Authorization"] = f"Bearer {self.key}"
        if body is not None:
            sent["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else orjson.dumps(body)
        answer = self.exchange(method, self.server.path + path, sent | headers, body, keyed=keyed)
        self.answers.append(answer)
        if keyed:
            self.note(answer)
        return answer

    def call(self, operation_id: str, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        """Send a request, and check that its answer is one that the document gives to the operation."""
        return check_answer(operation_id, self.send(method, path, body, **options))

    def page(self, path: str) -> Answer:
        """Fetch a page outside /v1, without the key; that costs no quota."""
        return self.exchange("GET", self.server.path.removesuffix("/v1") + path, NONE)

    def exchange(
        self, method: str, path: str, headers: Headers, body: bytes | None = None, *, keyed: bool = False
    ) -> Answer:
        """Send one request and return its answer; redirects are not followed. Raises UnreachableError."""
        kind = HTTPSConnection if self.server.scheme == "https" else HTTPConnection
        connection = kind(self.server.netloc, timeout=TIMEOUT_SECONDS)
        try:
            connection.request(method, path, body, {"User-Agent": "petstore-conformance"} | headers)
            with connection.getresponse() as response:
                content = response.read()
        except (OSError, HTTPException, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise UnreachableError(f"{self.url} gives no answer to {method}: {reason}.") from None
        finally:
            connection.close()
        return Answer(f"{method} {path[:200]}", response.status, response.headers, content, keyed)

    def rows(self, operation_id: str, path: str, **query: object) -> tuple[list[dict[str, Any]], Answer]:
        """Fetch one page of a list; return its rows and the answer."""
        answer = self.call(operation_id, "GET", f"{path}?{urlencode(query)}").expect_status(200)
        return answer.json(), answer

    def first(self, operation_id: str, path: str, noun: str) -> dict[str, Any]:
        """Return a list's first row. Raises NothingToCheckError if there are none of these."""
        rows, _ = self.rows(operation_id, path, limit=1)
        if not rows:
            raise NothingToCheckError(f"There are no {noun}.")
        return rows[0]

    def next_path(self, answer: Answer) -> str | None:
        """Return the next page's path and query, or None on the last page. Raises BrokenError (D10)."""
        link = NEXT.search(answer.headers["Link"] or "")
        if link is None:
            return None
        ours = link[1].startswith(f"{self.url}/")
        answer.expect(ours, f"the next page is at {link[1]}, not under {self.url}.")
        return link[1].removeprefix(self.url)

    def feed(self, path: str) -> tuple[list[dict[str, Any]], str]:
        """Fetch one page of the feed; return its events and where the next is. Raises BrokenError (D40)."""
        answer = self.call("listEvents", "GET", path).expect_status(200)
        following = self.next_path(answer)
        if following is None:
            raise BrokenError(
                f"{answer.sent}: it doesn't say where to ask next, as each page of the feed must."
            )
        return answer.json(), following

    def spare_quota(self, needed: int = 1) -> None:
        """Raise NotRunError if so many more requests with the key would cost too much."""
        if self.refused:
            raise NotRunError("The quota refused a request. Nothing more is sent, so that no ban follows.")
        if self.spent + needed > self.budget:
            raise NotRunError(f"The budget of {self.budget} requests is too small. See --budget.")
        if self.remaining is not None and self.remaining - needed < self.keep:
            raise NotRunError(f"Only {self.remaining} requests are left of the quota. See --keep.")

    def note(self, answer: Answer) -> None:
        """Keep what the answer says of the quota. Raises NotRunError for 429, and for a missing scope."""
        self.spent += 1
        remaining = answer.headers["X-RateLimit-Remaining"] or ""
        if remaining.isascii() and remaining.isdigit():
            self.remaining = int(remaining)
        if answer.status == 429:
            self.refused = True
            self.spare_quota()
        if answer.status == 403 and b'"insufficient_scope"' in answer.body:
            raise NotRunError("The key lacks the scope for this. Use a key that has all of them.")
