"""Checks, and the requests of one run, which respect a budget and the key's quota."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from petstore.conformance.client import NEXT, Headers, Response, ViolationError, exchange

NONE: Headers = {}
SECTION = re.compile(r'contract, "([^"]+)"')
DECISION = re.compile(r"\bD[0-9]+\b")
AGENT = {"User-Agent": "petstore-conformance"}


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_RUN = "not run"


class NotRunError(Exception):
    """The check could not run: the quota is low, or the key lacks a scope."""


class NothingToCheckError(Exception):
    """The deployment has no data for the check, for example no pets."""


OUTCOMES = {
    ViolationError: Outcome.FAILED,
    NothingToCheckError: Outcome.SKIPPED,
    NotRunError: Outcome.NOT_RUN,
}


@dataclass
class Session:
    """The deployment, and all responses so far."""

    url: str  # Ends in /v1.
    key: str
    budget: int
    reserve: int  # Requests of the quota to leave for other users of the key.
    responses: list[Response] = field(default_factory=list)  # Under /v1.
    keyed: list[Response] = field(default_factory=list)  # To authenticated requests.
    feed_end: str = ""  # The path after the last event, before any write.
    # Type and data of the expected events, by subject.
    expected: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    left_behind: list[str] = field(default_factory=list)

    def send(
        self, method: str, path: str, body: Any = None, *, headers: Headers = NONE, keyed: bool = True
    ) -> Response:
        """Send a request; a body other than bytes is sent as JSON.

        Raises NotRunError if budget or quota are nearly used up, after 429, and if the key lacks a scope.
        """
        all_headers = dict(AGENT)
        if keyed:
            self.require_quota()
            all_headers["Authorization"] = f"Bearer {self.key}"
        if body is not None:
            all_headers["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else orjson.dumps(body)
        response = exchange(self.url, method, path, all_headers | headers, body)
        self.responses.append(response)
        if keyed:
            self.keyed.append(response)
            if response.status == 429:
                self.require_quota()
            if response.status == 403 and b'"insufficient_scope"' in response.body:
                raise NotRunError("The key lacks a scope. Use a key with all scopes.")
        return response

    def require_quota(self, needed: int = 1) -> None:
        """Raise NotRunError unless budget and quota allow this many more requests."""
        if len(self.keyed) + needed > self.budget:
            raise NotRunError(f"The budget of {self.budget} requests is too small. See --budget.")
        if not self.keyed:
            return
        if self.keyed[-1].status == 429:
            raise NotRunError("A request got 429. No more are sent, to avoid a ban.")
        left = self.keyed[-1].headers["X-RateLimit-Remaining"] or ""
        if left.isascii() and left.isdigit() and int(left) - needed < self.reserve:
            raise NotRunError(f"Only {left} requests of the quota remain. See --keep.")

    def page(self, path: str) -> tuple[list[dict[str, Any]], str]:
        """Fetch one page; return its rows and the next page's path, which may be empty.

        Raises ViolationError for a next URL on another host (D10) or with another query (D9).
        """
        response = self.send("GET", path).expect_status(200)
        rows, link = response.json(), NEXT.search(response.headers["Link"] or "")
        if link is None:
            return rows, ""
        same_host = link[1].startswith(f"{self.url}/")
        response.expect(same_host, f"the next page is at {link[1]}, not under {self.url}.")
        query, next_query = (dict(parse_qsl(urlsplit(url).query)) for url in (path, link[1]))
        filters = {name: value for name, value in query.items() if name not in {"cursor", "since"}}
        consistent = "cursor" in next_query and next_query | filters == next_query
        response.expect(consistent, f"the next page, {link[1]}, lacks a cursor or part of the query.")
        return rows, link[1].removeprefix(self.url)

    def feed(self, path: str) -> tuple[list[dict[str, Any]], str]:
        """Fetch one page of events. Raises ViolationError without a next page (D40)."""
        events, following = self.page(path)
        self.responses[-1].expect(following, "the page has no next page, as every page of the feed must.")
        return events, following


@dataclass(frozen=True)
class Check:
    """A rule of the contract, and the function that checks it."""

    name: str
    rule: str  # Decisions and sections of the contract, see `references`.
    title: str
    function: Callable[[Session], None]
    writes: bool

    @property
    def references(self) -> list[str]:
        """Links such as `docs/decisions.md#d9`."""
        sections = [name.lower().replace(" ", "-") for name in SECTION.findall(self.rule)]
        decisions = [number.lower() for number in DECISION.findall(self.rule)]
        return [f"docs/contract.md#{name}" for name in sections] + [
            f"docs/decisions.md#{number}" for number in decisions
        ]

    def run(self, session: Session) -> dict[str, Any]:
        """Run the check; return its JSON. Raises UnreachableError."""
        outcome, detail = Outcome.PASSED, ""
        try:
            self.function(session)
        except tuple(OUTCOMES) as error:
            outcome, detail = OUTCOMES[type(error)], str(error)
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # Unexpected JSON.
            outcome, detail = Outcome.FAILED, f"A response has an unexpected structure: {error!r}."
        found = {"name": self.name, "rule": self.rule, "see": self.references, "title": self.title}
        return found | {"outcome": outcome.value, "detail": detail}
