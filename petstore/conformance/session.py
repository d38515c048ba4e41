"""The requests of one run: with the key, within a budget, never against a quota that is nearly used up."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from petstore.conformance.client import NEXT, Headers, Response, exchange

NONE: Headers = {}
AGENT = {"User-Agent": "petstore-conformance"}


class NotRunError(Exception):
    """The check could not be carried out: the quota is low, or the key lacks a scope."""


class Session:
    """A deployment, and every response that it gave."""

    def __init__(self, url: str, key: str, *, budget: int, keep: int) -> None:
        """`url` is the contract's {base_url}; `keep` the requests that stay for the key's own users."""
        self.url = url
        self.key = key
        self.budget = budget
        self.keep = keep
        self.responses: list[Response] = []  # Those under /v1.
        self.keyed: list[Response] = []  # Those to requests with the key.
        self.feed_end = ""  # Where the feed ended before anything was written.
        self.written: list[dict[str, Any]] = []  # Type and data of each event that the feed must have.
        self.left_behind: list[str] = []

    def send(
        self, method: str, path: str, body: Any = None, *, headers: Headers = NONE, keyed: bool = True
    ) -> Response:
        """Send a request under the base URL; a body that is not bytes goes as JSON.

        Raises NotRunError rather than use up the budget or the quota, after 429, or where the key lacks
        a scope.
        """
        sent = dict(AGENT)
        if keyed:
            self.spare_quota()
            sent["Authorization"] = f"Bearer {self.key}"
        if body is not None:
            sent["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else orjson.dumps(body)
        response = exchange(self.url, method, path, sent | headers, body)
        self.responses.append(response)
        if keyed:
            self.keyed.append(response)
            if response.status == 429:
                self.spare_quota()
            if response.status == 403 and b'"insufficient_scope"' in response.body:
                raise NotRunError("The key lacks the scope for this. Use a key that has all of them.")
        return response

    def spare_quota(self, needed: int = 1) -> None:
        """Raise NotRunError if so many more requests with the key would cost too much."""
        if len(self.keyed) + needed > self.budget:
            raise NotRunError(f"The budget of {self.budget} requests is too small. See --budget.")
        if not self.keyed:
            return
        if self.keyed[-1].status == 429:
            raise NotRunError("The quota refused a request. Nothing more is sent, so that no ban follows.")
        left = self.keyed[-1].headers["X-RateLimit-Remaining"] or ""
        if left.isascii() and left.isdigit() and int(left) - needed < self.keep:
            raise NotRunError(f"Only {left} requests are left of the quota. See --keep.")

    def page(self, path: str) -> Response:
        """Fetch a page outside /v1, without the key; that costs no quota."""
        return exchange(self.url.removesuffix("/v1"), "GET", path, AGENT)

    def rows(self, path: str) -> tuple[list[dict[str, Any]], Response]:
        """Fetch one page of a list; return its rows and the response."""
        response = self.send("GET", path).expect_status(200)
        return response.json(), response

    def next_path(self, response: Response) -> str:
        """Return the next page's path and query, or nothing on the last page.

        Raises BrokenError for a URL elsewhere (D10), and for one that is not the next of this query (D9).
        """
        link = NEXT.search(response.headers["Link"] or "")
        if link is None:
            return ""
        ours = link[1].startswith(f"{self.url}/")
        response.expect(ours, f"the next page is at {link[1]}, not under {self.url}.")
        asked, following = (dict(parse_qsl(urlsplit(url).query)) for url in (response.request, link[1]))
        kept = {name: asked[name] for name in asked.keys() - {"cursor", "since"}}
        repeats = "cursor" in following and following | kept == following
        response.expect(repeats, f"the next page is at {link[1]}, without a cursor or the query.")
        return link[1].removeprefix(self.url)

    def feed(self, path: str) -> tuple[list[dict[str, Any]], str]:
        """Fetch one page of the feed; return its events and where the next is. Raises BrokenError (D40)."""
        events, response = self.rows(path)
        following = self.next_path(response)
        response.expect(following, "it doesn't say where to ask next, as each page of the feed must.")
        return events, following
