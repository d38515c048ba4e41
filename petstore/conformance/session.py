"""A check, and the requests of one run: within a budget, never against a quota that is nearly used up."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from petstore.conformance.client import NEXT, BrokenError, Headers, Response, exchange

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
    """The check could not be carried out: the quota is low, or the key lacks a scope."""


class NothingToCheckError(Exception):
    """The deployment has nothing to check this on, for example no pets. That is no fault."""


OUTCOMES = {
    BrokenError: Outcome.FAILED,
    NothingToCheckError: Outcome.SKIPPED,
    NotRunError: Outcome.NOT_RUN,
}


@dataclass
class Session:
    """A deployment, and every response that it gave."""

    url: str  # The contract's {base_url}.
    key: str
    budget: int
    keep: int  # The requests that stay for the key's own users.
    responses: list[Response] = field(default_factory=list)  # Those under /v1.
    keyed: list[Response] = field(default_factory=list)  # Those to requests with the key.
    feed_end: str = ""  # Where the feed ended before anything was written.
    # Type and data of each event that the feed must have, by what it is about.
    written: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    left_behind: list[str] = field(default_factory=list)

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

    def page(self, path: str) -> tuple[list[dict[str, Any]], str]:
        """Fetch one page of a list; return its rows, and the next page's path or nothing.

        Raises BrokenError for a next URL elsewhere (D10), and for one that is not of this query (D9).
        """
        response = self.send("GET", path).expect_status(200)
        rows, link = response.json(), NEXT.search(response.headers["Link"] or "")
        if link is None:
            return rows, ""
        ours = link[1].startswith(f"{self.url}/")
        response.expect(ours, f"the next page is at {link[1]}, not under {self.url}.")
        asked, told = (dict(parse_qsl(urlsplit(url).query)) for url in (path, link[1]))
        kept = {name: value for name, value in asked.items() if name not in {"cursor", "since"}}
        repeats = "cursor" in told and told | kept == told
        response.expect(repeats, f"the next page is at {link[1]}, without a cursor or the query.")
        return rows, link[1].removeprefix(self.url)

    def feed(self, path: str) -> tuple[list[dict[str, Any]], str]:
        """Fetch one page of the feed; return its events and where the next is. Raises BrokenError (D40)."""
        events, following = self.page(path)
        told = "it doesn't say where to ask next, as each page of the feed must."
        self.responses[-1].expect(following, told)
        return events, following


@dataclass(frozen=True)
class Check:
    """One rule of the contract, and the function that looks at it."""

    name: str
    rule: str  # Decisions by number, sections of the contract by name, as everywhere: see `places`.
    title: str
    look: Callable[[Session], None]
    writes: bool

    @property
    def places(self) -> list[str]:
        """Where the rule can be read, such as `docs/decisions.md#d9`."""
        sections = [name.lower().replace(" ", "-") for name in SECTION.findall(self.rule)]
        decisions = [number.lower() for number in DECISION.findall(self.rule)]
        return [f"docs/contract.md#{name}" for name in sections] + [
            f"docs/decisions.md#{number}" for number in decisions
        ]

    def run(self, session: Session) -> dict[str, Any]:
        """Carry it out; return the result for programs. Raises UnreachableError where no response comes."""
        outcome, detail = Outcome.PASSED, ""
        try:
            self.look(session)
        except tuple(OUTCOMES) as error:
            outcome, detail = OUTCOMES[type(error)], str(error)
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # A body of another shape.
            outcome, detail = Outcome.FAILED, f"An answer has an unexpected shape: {error!r}."
        found = {"name": self.name, "rule": self.rule, "see": self.places, "title": self.title}
        return found | {"outcome": outcome.value, "detail": detail}
