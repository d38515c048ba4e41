"""The checks of every response, and the kinds of violation.

Nothing here sends or waits: an answer and what its asker knows go in, violations come out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from tests.chaos.client import LOST, SILENT, TIMEOUT, Reply
from tests.chaos.journal import Journal

MINUTE = 60  # Seconds: a window of the minute limit.

# How often an account can use up its limit in one minute. Redis and the database are each exact, but while
# they alternate, neither knows the other's counts of the current minute. So each can admit the limit once
# (accounts/quota/fallback.py, docs/runbooks.md).
MINUTES_OF_TWO_STORES = 2
# The day's count is carried over at each change, except requests in flight (docs/operating.md): one per
# connection of the account.
MISSED_OF_A_DAY = 2
# A request during the failure of a store may be counted by both.
CHARGES = 2

LOOK = "get account"  # Free, with a limit of its own (D39).
LOOKS = 60  # In a minute.

LIMIT = "x-ratelimit-limit"
RESET = "x-ratelimit-reset"
EACH_HAS = ("x-request-id", LIMIT, "x-ratelimit-remaining", RESET)  # D23, D29.


class Kind(StrEnum):
    """The kinds of violation."""

    FOREIGN = "foreign response"
    HANG = "no response in 10 s"
    CUT = "connection lost"
    STATUS = "unexplained status"
    INCOMPLETE = "incomplete response"
    WRONG = "wrong response"
    LIMIT = "limit exceeded"
    REFUSED = "rejected below the limit"
    LOST = "acknowledged write lost"
    DOUBLED = "write done twice"
    BROKEN = "order and pet disagree"
    FEED = "wrong feed"
    REVOKED = "revoked key works"
    BANNED = "lifted ban holds"
    UNWELL = "not ready in time"
    FAILOVER = "failover not followed"
    LEFT = "memory or sockets left"


class Violation(NamedTuple):
    """One violation."""

    kind: Kind
    request_id: str
    detail: str


class Asked(NamedTuple):
    """A request, and what a successful response must contain."""

    operation: str
    success: int
    explained: frozenset[str] = frozenset()  # Error codes that earlier requests explain.
    name: str = ""  # Of the new pet.
    pet: int = 0
    order: int = 0
    limit: int = 0  # Of a list.
    filtered: str = ""  # By this status.
    full: bool = False  # Whether there are more rows than the list may show.


def check(asked: Asked, reply: Reply, journal: Journal) -> Iterator[Violation]:

    def violation(kind: Kind, detail: str) -> Violation:
        return Violation(kind, reply.request_id, f"{journal.account.name}, {asked.operation}: {detail}")

    if reply.status == SILENT or reply.took > TIMEOUT:
        yield violation(Kind.HANG, f"{reply.took:.1f} s")
    if reply.status == LOST:
        yield violation(Kind.CUT, f"after {reply.took:.2f} s: {reply.body.decode()}")
    if reply.status <= 0:
        return
    for kind, detail in (
        *of_headers(reply, journal),
        *of_status(asked, reply, journal),
        *(of_body(asked, reply.json, journal) if reply.status == asked.success else ()),
    ):
        yield violation(kind, detail)


def of_headers(reply: Reply, journal: Journal) -> Iterator[tuple[Kind, str]]:
    """Check the headers of every response, and that it is the sender's."""
    missing = [name for name in EACH_HAS if name not in reply.headers]
    if missing:
        yield Kind.INCOMPLETE, f"{reply.status} {reply.code} without {', '.join(missing)}"
    echoed = reply.headers.get("x-request-id", reply.request_id)
    if echoed != reply.request_id:
        yield Kind.FOREIGN, f"{reply.status} with the id of request {echoed}"
    limit = reply.headers.get(LIMIT)
    if limit is not None and limit not in journal.account.numbers and reply.status not in {401, 429, 503}:
        yield Kind.FOREIGN, f"{reply.status} with a limit of {limit}"


def of_status(asked: Asked, reply: Reply, journal: Journal) -> Iterator[tuple[Kind, str]]:
    """Check that the contract allows the status, and that an Error is complete."""
    if reply.status == asked.success:
        return
    error = reply.json
    if not isinstance(error, dict) or error.get("status") != reply.status or not reply.code:
        yield Kind.INCOMPLETE, f"{reply.status} without an Error: {reply.body[:80]!r}"
    if reply.status in {429, 503} and not reply.headers.get("retry-after", "").isdigit():
        yield Kind.INCOMPLETE, f"{reply.status} without Retry-After"
    if reply.status == 429 and asked.operation == LOOK:
        yield from of_refused_look(reply, journal)
    elif reply.status == 429:
        yield from of_refusal(reply, journal)
    elif reply.status != 503 and reply.code not in asked.explained:
        yield Kind.STATUS, f"{reply.status} {reply.code}"


def of_refusal(reply: Reply, journal: Journal) -> Iterator[tuple[Kind, str]]:
    """Check that a rejected account has used up its limit."""
    account = journal.account
    since, limit, code = {
        "minute": (reply.sent - MINUTE, account.per_minute, "rate_limit_exceeded"),
        "day": (0.0, account.per_day, "daily_quota_exceeded"),
    }.get(account.limited_by, (0.0, 0, ""))
    sent = len(journal.sent) - bisect_left(journal.sent, since)
    if reply.code != code or reply.headers.get(LIMIT) not in account.numbers:
        yield Kind.STATUS, f"429 {reply.code} with a limit of {reply.headers.get(LIMIT)}"
    elif CHARGES * sent < limit:
        yield Kind.REFUSED, f"after {sent} requests of {limit}"


def of_refused_look(reply: Reply, journal: Journal) -> Iterator[tuple[Kind, str]]:
    """Check that reading the account is rejected only for its own limit, not for quota or a ban."""
    looked = len(journal.looked) - bisect_left(journal.looked, reply.sent - MINUTE)
    if reply.code != "rate_limit_exceeded" or reply.headers.get(LIMIT) != str(LOOKS):
        yield Kind.STATUS, f"429 {reply.code} with a limit of {reply.headers.get(LIMIT)}"
    elif CHARGES * looked < LOOKS:
        yield Kind.REFUSED, f"after {looked} looks"


def of_body(asked: Asked, body: Any, journal: Journal) -> Iterator[tuple[Kind, str]]:
    """Check the body."""
    match asked.operation:
        case "list pets":
            yield from of_pets(asked, body)
        case "create pet":
            made = body if isinstance(body, dict) else {}
            if made.get("name") != asked.name:
                yield Kind.FOREIGN, f"made {made.get('name')!r} instead of {asked.name!r}"
        case "place order" | "get order":
            yield from of_order(asked, body, journal)
        case "list orders":
            yield from of_orders(body, journal)
        case "get account":
            yield from of_account(body, journal)
        case "cancel order" if body is not None:
            yield Kind.WRONG, "204 with a body"


def of_pets(asked: Asked, body: Any) -> Iterator[tuple[Kind, str]]:
    if not isinstance(body, list) or not all(isinstance(pet, dict) and "name" in pet for pet in body):
        yield Kind.FOREIGN, f"no list of pets: {str(body)[:80]}"
        return
    statuses = {pet.get("status") for pet in body}
    wrong_length = len(body) != asked.limit if asked.full else len(body) > asked.limit
    if wrong_length or (asked.filtered and statuses - {asked.filtered}):
        yield Kind.FOREIGN, f"{len(body)} pets, {statuses}, instead of {asked.limit} {asked.filtered}"


def of_order(asked: Asked, body: Any, journal: Journal) -> Iterator[tuple[Kind, str]]:
    order = body if isinstance(body, dict) else {}
    if order.get("petId") != asked.pet or (asked.order and order.get("id") != asked.order):
        yield Kind.FOREIGN, f"{str(body)[:120]} instead of order {asked.order} of pet {asked.pet}"
    elif asked.filtered and order.get("status") != asked.filtered:
        yield Kind.LOST, f"order {asked.order} is {order.get('status')} instead of {asked.filtered}"


def of_orders(body: Any, journal: Journal) -> Iterator[tuple[Kind, str]]:
    """Check that a list has only the account's own orders."""
    if not isinstance(body, list):
        yield Kind.FOREIGN, f"no list: {str(body)[:80]}"
        return
    foreign = [
        order
        for order in body
        if not isinstance(order, dict)
        or order.get("petId") not in journal.ordered_pets
        or (order.get("id") in journal.orders and journal.orders[order["id"]].pet != order["petId"])
    ]
    if foreign:
        yield Kind.FOREIGN, f"{len(foreign)} of {len(body)} orders are another's: {str(foreign[0])[:120]}"


def of_account(body: Any, journal: Journal) -> Iterator[tuple[Kind, str]]:
    """Check that the account has its own name and limits, and no ban, since it obeys Retry-After."""
    account = journal.account
    try:
        shown = body["account"]["name"], *(body["quota"][name]["limit"] for name in ("minute", "day"))
        banned = body["ban"]
    except (LookupError, TypeError):
        yield Kind.FOREIGN, f"no account: {str(body)[:80]}"
        return
    if shown != (account.name, account.per_minute, account.per_day):
        yield Kind.FOREIGN, f"is shown {shown}"
    if banned:
        yield Kind.WRONG, f"is shown the ban {banned}"


def charge(reply: Reply, journal: Journal) -> None:
    """Record a certainly admitted request under the window in its headers."""
    if reply.status in {LOST, SILENT, 401, 429, 503} or not reply.headers.get(RESET, "").isdigit():
        return
    end, limit = int(reply.headers[RESET]), reply.headers.get(LIMIT)
    if limit == str(journal.account.per_minute):
        journal.charged["minute", end] += 1
    elif limit == str(journal.account.per_day):
        journal.charged["day", end] += 1


def of_limits(journal: Journal, *, changed: bool) -> Iterator[Violation]:
    """Check the total of admitted requests. `changed`: whether the stores alternated.

    Two windows that one store has counted end a minute apart or more, so of those that end within one
    minute each store has one at most.
    """
    account, charged = journal.account, journal.charged
    most = account.per_day + (MISSED_OF_A_DAY if changed else 0)
    for (window, _), admitted in charged.items():
        if window == "day" and admitted > most:
            detail = f"{account.name}: {admitted} admitted on a day of {account.per_day}"
            yield Violation(Kind.LIMIT, "", detail)
    minutes = MINUTES_OF_TWO_STORES if changed else 1
    ends = sorted(end for window, end in charged if window == "minute")
    for end in ends:
        admitted = sum(charged["minute", other] for other in ends if end - MINUTE < other <= end)
        if admitted > account.per_minute * minutes:
            detail = f"{account.name}: {admitted} admitted in a minute of {account.per_minute}"
            yield Violation(Kind.LIMIT, "", detail)
