"""The checks and requests of one run, limited by a budget and the key's quota."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from petstore.conformance.client import NEXT_LINK, Headers, Response, ViolationError, exchange

DEFAULT_LIMIT = 20
NO_HEADERS: Headers = {}
SECTION = re.compile(r'contract, "([^"]+)"')
DECISION = re.compile(r"\bD[0-9]+\b")
USER_AGENT = {"User-Agent": "petstore-conformance"}


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_RUN = "not run"


class NotRunError(Exception):
    """The check could not run, for example because the quota is low or the key lacks a scope."""


class NothingToCheckError(Exception):
    """The deployment has no data for the check, for example no pets."""


@dataclass
class Session:
    """A run: the deployment, and all of its responses so far."""

    url: str  # Ends in /v1.
    key: str
    budget: int
    reserve: int  # Requests of the quota to leave for other users of the key.
    responses: list[Response] = field(default_factory=list)  # From paths under /v1.
    authenticated_responses: list[Response] = field(default_factory=list)
    feed_end: str = ""  # The path of the page after the last event before any write.
    # Types and data by subject, in the order of the feed.
    expected_events: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    left_behind: list[str] = field(default_factory=list)

    def send(
        self, method: str, path: str, body: Any = None, *,
        headers: Headers = NO_HEADERS, authenticated: bool = True,
    ) -> Response:  # fmt: skip
        """Send a request. A body that is not bytes is encoded as JSON.

        Raises NotRunError if the budget is used up, the quota is down to the reserve, or the key lacks a
        scope, and after a 429.
        """
        all_headers = dict(USER_AGENT)
        if authenticated:
            self.require_quota()
            all_headers["Authorization"] = f"Bearer {self.key}"
        if body is not None:
            all_headers["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else orjson.dumps(body)
        response = exchange(self.url, method, path, all_headers | headers, body)
        self.responses.append(response)
        if authenticated:
            self.authenticated_responses.append(response)
            if response.status == 429:
                self.require_quota()
            if response.status == 403 and b'"insufficient_scope"' in response.body:
                raise NotRunError("The key lacks a scope. Use a key with all scopes.")
        return response

    def require_quota(self, needed: int = 1) -> None:
        """Raise NotRunError unless budget and quota allow this many more requests."""
        if len(self.authenticated_responses) + needed > self.budget:
            raise NotRunError(f"The budget of {self.budget} requests is too small. See --budget.")
        if not self.authenticated_responses:
            return
        if self.authenticated_responses[-1].status == 429:
            raise NotRunError("A request got 429. No more are sent, to avoid a ban.")
        remaining = self.authenticated_responses[-1].headers["X-RateLimit-Remaining"] or ""
        if remaining.isascii() and remaining.isdigit() and int(remaining) - needed < self.reserve:
            raise NotRunError(f"Only {remaining} requests remain in the quota. See --keep.")

    def fetch_page(self, path: str, *, is_feed: bool = False) -> tuple[list[dict[str, Any]], str]:
        """Fetch a page. Return its rows, and the path of the next page or "".

        Raises ViolationError for an incomplete page that is not the last, and for a next URL that is
        missing in a feed (D40), on another host (D10) or with another query (D9).
        """
        response = self.send("GET", path).expect_status(200)
        rows, link = response.json(), NEXT_LINK.search(response.headers["Link"] or "")
        query = dict(parse_qsl(urlsplit(path).query))
        if is_feed:
            response.expect(link, "the page has no next link, which every page of the feed must have.")
        else:
            limit = int(query.get("limit", DEFAULT_LIMIT))
            is_complete = len(rows) == limit or (len(rows) < limit and not link)
            response.expect(is_complete, f"the page has {len(rows)} items, not {limit}.")
        if link is None:
            return rows, ""
        same_host = link[1].startswith(f"{self.url}/")
        response.expect(same_host, f"the next page is at {link[1]}, not under {self.url}.")
        next_query = dict(parse_qsl(urlsplit(link[1]).query))
        filters = {name: value for name, value in query.items() if name not in {"cursor", "since"}}
        consistent = "cursor" in next_query and next_query | filters == next_query
        response.expect(consistent, f"the next page, {link[1]}, lacks a cursor or part of the query.")
        return rows, link[1].removeprefix(self.url)


@dataclass(frozen=True)
class Check:
    """A rule of the contract, and the function that checks it."""

    name: str
    rule: str  # The decisions and sections of the contract that it comes from.
    title: str
    function: Callable[[Session], None]
    writes: bool

    @property
    def references(self) -> list[str]:
        """Links to the rule, such as `docs/decisions.md#d9`."""
        sections = [name.lower().replace(" ", "-") for name in SECTION.findall(self.rule)]
        decisions = [f"docs/decisions.md#{number.lower()}" for number in DECISION.findall(self.rule)]
        return [f"docs/contract.md#{section}" for section in sections] + decisions

    def run(self, session: Session) -> dict[str, Any]:
        """Run the check and return its entry in the report. Raises UnreachableError."""
        outcome, detail = Outcome.PASSED, ""
        try:
            self.function(session)
        except ViolationError as error:
            outcome, detail = Outcome.FAILED, str(error)
        except NothingToCheckError as error:
            outcome, detail = Outcome.SKIPPED, str(error)
        except NotRunError as error:
            outcome, detail = Outcome.NOT_RUN, str(error)
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # Unexpected JSON.
            outcome, detail = Outcome.FAILED, f"A response has an unexpected structure: {error!r}."
        entry = {"name": self.name, "rule": self.rule, "see": self.references, "title": self.title}
        return entry | {"outcome": outcome.value, "detail": detail}
