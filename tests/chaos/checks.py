"""The checks of every response, and the kinds of violation.

Nothing here sends or waits: the checks take a response and the sender's journal, and yield violations.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from tests.chaos.client import LOST, SILENT, TIMEOUT, Reply
from tests.chaos.journal import Journal

MINUTE = 60  # Seconds: a window of the minute limit.
RECOVERY_SECONDS = 5.0  # From the end of a fault until no request fails.

GET_ACCOUNT = "get account"  # Free, with a limit of its own (D39).
ACCOUNT_LIMIT = 60  # Requests a minute.

LIMIT = "x-ratelimit-limit"
RESET = "x-ratelimit-reset"
REQUIRED_HEADERS = ("x-request-id", LIMIT, "x-ratelimit-remaining", RESET)  # D23, D29.


class Kind(StrEnum):
    FOREIGN = "foreign response"
    HANG = "no response in 10 s"
    CUT = "connection lost"
    STATUS = "unexplained status"
    INCOMPLETE = "incomplete response"
    WRONG = "wrong response"
    LIMIT = "limit exceeded"
    REJECTED = "rejected below the limit"
    LOST = "acknowledged write lost"
    DOUBLED = "write done twice"
    BROKEN = "order and pet disagree"
    FEED = "wrong feed"
    REVOKED = "revoked key works"
    BANNED = "lifted ban holds"
    NOT_READY = "not ready in time"
    LEFT = "memory or sockets left"


class Violation(NamedTuple):
    kind: Kind
    request_id: str
    detail: str


class Expected(NamedTuple):
    """The operation of a request, and what a successful response must contain."""

    operation: str
    success: int
    errors: frozenset[str] = frozenset()  # Codes that earlier requests explain.
    name: str = ""  # Of the new pet.
    pet: int = 0
    order: int = 0
    limit: int = 0  # Of a list.
    status: str = ""  # Of the order, or of all pets.


def check(expected: Expected, reply: Reply, journal: Journal) -> Iterator[Violation]:

    def violation(kind: Kind, detail: str) -> Violation:
        return Violation(kind, reply.request_id, f"{journal.account.name}, {expected.operation}: {detail}")

    if reply.status == SILENT or reply.took > TIMEOUT:
        yield violation(Kind.HANG, f"{reply.took:.1f} s")
    if reply.status == LOST:
        yield violation(Kind.CUT, f"after {reply.took:.2f} s: {reply.body.decode()}")
    if reply.status <= 0:
        return
    for kind, detail in (
        *check_headers(reply, journal),
        *check_status(expected, reply, journal),
        *(check_body(expected, reply.json, journal) if reply.status == expected.success else ()),
    ):
        yield violation(kind, detail)


def check_headers(reply: Reply, journal: Journal) -> Iterator[tuple[Kind, str]]:
    """Check the headers of every response, and that it is the sender's."""
    missing = [name for name in REQUIRED_HEADERS if name not in reply.headers]
    if missing:
        yield Kind.INCOMPLETE, f"{reply.status} {reply.code} without {', '.join(missing)}"
    echoed = reply.headers.get("x-request-id", reply.request_id)
    if echoed != reply.request_id:
        yield Kind.FOREIGN, f"{reply.status} with the id of request {echoed}"
    limit = reply.headers.get(LIMIT)
    if limit is not None and limit not in journal.account.limits and reply.status not in {401, 429, 503}:
        yield Kind.FOREIGN, f"{reply.status} with a limit of {limit}"


def check_status(expected: Expected, reply: Reply, journal: Journal) -> Iterator[tuple[Kind, str]]:
    """Check that the contract allows the status, and that an Error is complete."""
    if reply.status == expected.success:
        return
    error = reply.json
    if not isinstance(error, dict) or error.get("status") != reply.status or not reply.code:
        yield Kind.INCOMPLETE, f"{reply.status} without an Error: {reply.body[:80]!r}"
    if reply.status in {429, 503} and not reply.headers.get("retry-after", "").isdigit():
        yield Kind.INCOMPLETE, f"{reply.status} without Retry-After"
    if reply.status == 429 and expected.operation == GET_ACCOUNT:
        yield from check_rejected_get_account(reply, journal)
    elif reply.status == 429:
        yield from check_rejection(reply, journal)
    elif reply.status != 503 and reply.code not in expected.errors:
        yield Kind.STATUS, f"{reply.status} {reply.code}"


def check_rejection(reply: Reply, journal: Journal) -> Iterator[tuple[Kind, str]]:
    """Check that a rejected account has used up its limit, for which no request counts twice."""
    account = journal.account
    since, limit, code = {
        "minute": (reply.sent - MINUTE - TIMEOUT, account.per_minute, "rate_limit_exceeded"),
        "day": (0.0, account.per_day, "daily_quota_exceeded"),
    }.get(account.limited_by, (0.0, 0, ""))
    sent = len(journal.sent) - bisect_left(journal.sent, since)
    if reply.code != code or reply.headers.get(LIMIT) not in account.limits:
        yield Kind.STATUS, f"429 {reply.code} with a limit of {reply.headers.get(LIMIT)}"
    elif sent < limit:
        yield Kind.REJECTED, f"after {sent} requests of {limit}"


def check_rejected_get_account(reply: Reply, journal: Journal) -> Iterator[tuple[Kind, str]]:
    """Check that reading the account is rejected only for its own limit, not for quota or a ban."""
    reads = journal.account_reads
    sent = len(reads) - bisect_left(reads, reply.sent - MINUTE - TIMEOUT)
    if reply.code != "rate_limit_exceeded" or reply.headers.get(LIMIT) != str(ACCOUNT_LIMIT):
        yield Kind.STATUS, f"429 {reply.code} with a limit of {reply.headers.get(LIMIT)}"
    elif sent < ACCOUNT_LIMIT:
        yield Kind.REJECTED, f"after {sent} requests of {ACCOUNT_LIMIT}"


def check_body(expected: Expected, body: Any, journal: Journal) -> Iterator[tuple[Kind, str]]:
    match expected.operation:
        case "list pets":
            yield from check_pets(expected, body)
        case "create pet":
            created = body if isinstance(body, dict) else {}
            if created.get("name") != expected.name:
                yield Kind.FOREIGN, f"created {created.get('name')!r} instead of {expected.name!r}"
        case "place order" | "get order":
            yield from check_order(expected, body)
        case "list orders":
            yield from check_orders(body, journal)
        case "get account":
            yield from check_account(body, journal)
        case "cancel order" if body is not None:
            yield Kind.WRONG, "204 with a body"


def check_pets(expected: Expected, body: Any) -> Iterator[tuple[Kind, str]]:
    if not isinstance(body, list) or not all(isinstance(pet, dict) and "name" in pet for pet in body):
        yield Kind.FOREIGN, f"no list of pets: {str(body)[:80]}"
        return
    statuses = {pet.get("status") for pet in body}
    if len(body) != expected.limit or statuses - {expected.status}:
        yield Kind.FOREIGN, f"{len(body)} pets, {statuses}, instead of {expected.limit} {expected.status}"


def check_order(expected: Expected, body: Any) -> Iterator[tuple[Kind, str]]:
    order = body if isinstance(body, dict) else {}
    if order.get("petId") != expected.pet or (expected.order and order.get("id") != expected.order):
        yield Kind.FOREIGN, f"{str(body)[:120]} instead of order {expected.order} of pet {expected.pet}"
    elif expected.status and order.get("status") != expected.status:
        yield Kind.LOST, f"order {expected.order} is {order.get('status')} instead of {expected.status}"


def check_orders(body: Any, journal: Journal) -> Iterator[tuple[Kind, str]]:
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


def check_account(body: Any, journal: Journal) -> Iterator[tuple[Kind, str]]:
    """Check that the account sees its own name and limits, and no ban, since it obeys Retry-After."""
    account = journal.account
    try:
        shown = body["account"]["name"], *(body["quota"][name]["limit"] for name in ("minute", "day"))
        banned = body["ban"]
    except (LookupError, TypeError):
        yield Kind.FOREIGN, f"no account: {str(body)[:80]}"
        return
    if shown != (account.name, account.per_minute, account.per_day):
        yield Kind.FOREIGN, f"shows {shown}"
    if banned:
        yield Kind.WRONG, f"shows the ban {banned}"


def count_admitted(reply: Reply, journal: Journal) -> None:
    """Count a request that was certainly admitted in the window that its headers name."""
    if reply.status in {LOST, SILENT, 401, 429, 503} or not reply.headers.get(RESET, "").isdigit():
        return
    end, limit = int(reply.headers[RESET]), reply.headers.get(LIMIT)
    if limit == str(journal.account.per_minute):
        journal.admitted["minute", end] += 1
    elif limit == str(journal.account.per_day):
        journal.admitted["day", end] += 1


def check_limits(journal: Journal) -> Iterator[Violation]:
    """Check the total of admitted requests. Only one window ends within a minute."""
    account, admitted = journal.account, journal.admitted
    for (window, _), count in admitted.items():
        if window == "day" and count > account.per_day:
            detail = f"{account.name}: {count} admitted in a day, limit {account.per_day}"
            yield Violation(Kind.LIMIT, "", detail)
    ends = sorted(end for window, end in admitted if window == "minute")
    for end in ends:
        count = sum(admitted["minute", other] for other in ends if end - MINUTE < other <= end)
        if count > account.per_minute:
            detail = f"{account.name}: {count} admitted in a minute, limit {account.per_minute}"
            yield Violation(Kind.LIMIT, "", detail)
