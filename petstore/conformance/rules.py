"""Each rule that is checked. Those of responses, at the end, read every response that the others got."""

import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.utils import timezone

from petstore.api.errors import ErrorCode as Code
from petstore.api.openapi.lists import lists
from petstore.api.openapi.views import document
from petstore.conformance.client import BrokenError, Response, exchange
from petstore.conformance.document import (
    expect_documented,
    expect_error,
    new_pet,
    operation_of,
    schemas,
)
from petstore.conformance.session import AGENT, Check, NothingToCheckError, NotRunError, Session

Row = dict[str, Any]

CHECKS: list[Check] = []  # In the order in which they stand here.
REMOVED = timezone.now() >= settings.GET_PET_REMOVED_AT  # getPet, by now (D33).
SUNSET = "Thu, 05 Dec 2030 00:00:00 GMT"
OPEN_PAGES = ("/", "/docs", "/healthz", "/readyz", "/openapi.yaml", "/openapi.json")  # The last is read.
POLICY = re.compile(r'"(\w+)";q=(\d+);w=\d+')  # In RateLimit-Policy (D28).
WINDOW = re.compile(r'"(\w+)";r=(\d+);t=(\d+)')  # In RateLimit (D28).
SLACK_SECONDS = 2  # Between two clocks, and between a header and the response's Date.


def check(rule: str, *, writes: bool = False) -> Callable[[Callable[[Session], None]], None]:
    """Make a check of a function, which raises BrokenError where its docstring does not hold."""

    def make(look: Callable[[Session], None]) -> None:
        title = (look.__doc__ or "").strip().rstrip(".")
        CHECKS.append(Check(look.__name__, rule, title, look, writes))

    return make


def expect_members(response: Response, row: Row, wanted: Row) -> None:
    """Raise BrokenError for members of a row that have other values than these."""
    other = {name: row[name] for name, value in wanted.items() if row[name] != value}
    response.expect(not other, f"it has {other}, not {wanted}.")


# --- Lists, pages, caching, deprecation and the pages outside /v1 ---------------------------------


def full_page(session: Session, path: str, limit: int) -> tuple[list[Row], str]:
    """Return a page's rows and the next page's path. Raises BrokenError for too many rows, or too few."""
    rows, following = session.page(path)
    full = len(rows) == limit or (len(rows) < limit and not following)
    session.responses[-1].expect(full, f"{len(rows)} items came, not {limit}.")
    return rows, following


@check('The contract, "List pets"; D9, D10')
def lists_come_in_pages(session: Session) -> None:
    """The pages of each list have `limit` items, 20 without one, by ascending id, and follow by Link."""
    for one in lists():
        whole, _ = full_page(session, one.path, 20)
        limit = len(whole) // 2 + 1
        rows, following = full_page(session, f"{one.path}?limit={limit}", limit)
        if following:
            rows += full_page(session, following, limit)[0]
        ids, all_ids = ([row["id"] for row in found] for found in (rows, whole))
        if ids != sorted(set(ids)) or ids[: len(whole)] != all_ids:
            raise BrokenError(f"GET {one.path}: pages of {limit} have {ids}, and the first page {all_ids}.")


@check('The contract, "List pets"; D13')
def filters_are_obeyed(session: Session) -> None:
    """Each filter of a list, and all of them together, bring only rows that have their values."""
    for one in lists():
        if one.filters and (first := full_page(session, f"{one.path}?limit=100", 100)[0]):
            queries = [{each.name: word} for each in one.filters for word in each.words]
            together = {each.name: first[0][each.name] for each in one.filters}
            for query in [*queries, *([together] if together not in queries else [])]:
                rows, _ = full_page(session, f"{one.path}?{urlencode(query | {'limit': 5})}", 5)
                for row in rows:
                    expect_members(session.responses[-1], row, query)


@check("D2, D6")
def accept_decides_nothing(session: Session) -> None:
    """The answer is JSON whatever Accept says, and unknown query parameters are ignored."""
    session.send("GET", "/pets?limit=1&x=1", headers={"Accept": "text/html"}).expect_status(200).json()


@check("D29")
def request_id_is_kept(session: Session) -> None:
    """A well-formed X-Request-Id comes back, another is replaced."""
    for sent, kept in (("conformance.check-1", True), ("not well formed!", False)):
        response = session.send("GET", "/pets?limit=1", headers={"X-Request-Id": sent})
        came = response.header("X-Request-Id")
        response.expect((came == sent) is kept, f"X-Request-Id {sent!r} came back as {came!r}.")


@check("D32")
def etag_saves_the_body(session: Session) -> None:
    """If-None-Match with the current ETag is 304 without a body, with another 200."""
    etag = session.send("GET", "/categories").header("ETag")
    again = session.send("GET", "/categories", headers={"If-None-Match": etag})
    again.expect_status(304, "with the current ETag: ")
    again.expect(again.header("ETag") == etag and not again.body, "304 has another ETag, or a body.")
    other = session.send("GET", "/categories", headers={"If-None-Match": '"conformance"'})
    other.expect_status(200, "with another ETag: ")


@check("D2")
def head_is_get_without_a_body(session: Session) -> None:
    """HEAD answers as GET does, without a body."""
    got, head = (session.send(method, "/categories") for method in ("GET", "HEAD"))
    head.expect_status(200)
    head.expect(not head.body, "has a body.")
    for name in ("Content-Type", "ETag"):
        head.expect_equal(name, head.header(name), got.header(name))


@check('The contract, "Get a pet"; D33')
def pet_is_found_by_its_id(session: Session) -> None:
    """A pet is the same alone as in the list; only its status may have changed meanwhile."""
    pets, _ = session.page("/pets?limit=1")
    if not pets:
        raise NothingToCheckError("There are no pets.")
    response = session.send("GET", f"/pets/{pets[0]['id']}")
    if REMOVED:
        expect_error(response, Code.ENDPOINT_REMOVED)
    else:
        pet = response.expect_status(200).json()
        expect_members(response, pet | {"status": pets[0]["status"]}, pets[0])


@check("D39")
def account_tells_what_is_left_and_is_free(session: Session) -> None:
    """The account shows what the headers show, and showing it uses nothing."""
    looks = [session.send("GET", "/account").expect_status(200) for _ in range(3)]
    for look in looks:
        told = {name: window["remaining"] for name, window in look.json()["quota"].items()}
        headers = {name: int(left) for name, left, _ in WINDOW.findall(look.header("RateLimit"))}
        look.expect(told == headers, f"it tells {told}, and RateLimit {headers}.")
    days = [look.json()["quota"]["day"]["used"] for look in looks]
    rises = {then - before for before, then in pairwise(days)}
    looks[-1].expect(rises != {1}, "each look uses a request of the day.")
    if rises != {0}:
        raise NothingToCheckError("Others use the account at the same time, or the day has ended.")


@check("D40, D42")
def feed_ends_where_it_goes_on(session: Session) -> None:
    """The feed has nothing of a time to come, and even its empty page says where to ask next."""
    events, session.feed_end = session.feed("/events?limit=100&since=9999-12-31T23:59:59Z")
    if events:
        raise BrokenError(f"GET /events: {len(events)} events came of a time that is to come.")


@check("D33")
def deprecation_is_announced(session: Session) -> None:
    """getPet says since when it is deprecated, when it goes, and what replaces it; on refusals too."""
    response = session.send("GET", "/pets/-1")
    since = response.header("Deprecation")
    response.expect(since[0] == "@" and int(since[1:]) <= response.now, f"Deprecation is {since!r}.")
    response.expect_equal("Sunset", response.header("Sunset"), SUNSET)
    links = ", ".join(response.headers.get_all("Link", []))
    named = 'rel="successor-version"' in links and f"<{session.url}/pets" in links
    response.expect(named, f"Link {links!r} names no successor under {session.url}.")


@check("D38")
def pages_need_no_key(session: Session) -> None:
    """Documentation and health are open, and the served document has every operation."""
    for path in OPEN_PAGES:
        response = exchange(session.url.removesuffix("/v1"), "GET", path, AGENT).expect_status(200)
    served, ours = (
        {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
        for paths in (response.json()["paths"], document()["paths"])
    )
    response.expect(served >= ours, f"the document lacks {', '.join(sorted(ours - served))}.")


# --- Refusals: the requests, and the Error that each of them must get ----------------------------

IDS = ("-1", "conformance", "9223372036854775808")
FEED = ("cursor", "type", "since")
LIMITS = ("limit=0", "limit=101", "limit=", "limit=5&limit=5")
WRONG_KEY = {"Authorization": "Bearer psk_live_conformance_0000"}
TEXT = {"Content-Type": "text/plain"}


def refused(
    name: str, rule: str, what: str, code: Code, *requests: str, writes: bool = False, **options: Any
) -> Check:
    """Make a check that each of these requests gets this Error; the options are those of Session.send."""

    def look(session: Session) -> None:
        for request in requests:
            method, path = request.split(" ", 1)
            expect_error(session.send(method, path, **options), code)

    return Check(name, rule, f"{what}: {code.status} {code.value}", look, writes)


REFUSALS = [
    refused("missing_key_is_refused", "D17", "A request without a key", Code.MISSING_API_KEY,
            "GET /pets", keyed=False),
    refused("malformed_key_is_refused", "D16, D17", "A key that is none", Code.INVALID_API_KEY,
            "GET /pets", keyed=False, headers=WRONG_KEY),
    refused("key_is_checked_before_the_path", "D17", "An unknown path without a key", Code.MISSING_API_KEY,
            "GET /conformance", keyed=False),
    refused("unknown_path_is_an_error", "D29", "An unknown path", Code.RESOURCE_NOT_FOUND,
            "GET /conformance"),
    refused("trailing_slash_is_no_redirect", "D1", "A path with a slash at its end, never a redirect",
            Code.RESOURCE_NOT_FOUND, "GET /pets/"),
    refused("wrong_method_names_the_right_ones", "D29", "A method that a path doesn't take",
            Code.METHOD_NOT_ALLOWED, "PUT /categories"),
    refused("limit_outside_its_bounds_is_refused", "D6", "A limit outside 1..100, empty or repeated",
            Code.INVALID_PARAMETER, *(f"GET /pets?{query}" for query in LIMITS)),
    refused("bad_places_in_the_feed_are_refused", "D6, D40", "A cursor, type or time that is none",
            Code.INVALID_PARAMETER, *(f"GET /events?{name}=conformance" for name in FEED)),
    refused("unknown_pet_is_not_found", "D7, D33", "A pet id that names nothing, or is no int64",
            Code.ENDPOINT_REMOVED if REMOVED else Code.PET_NOT_FOUND,
            *(f"GET /pets/{number}" for number in IDS)),
    refused("unknown_order_is_not_found", "D14", "An order id that names nothing", Code.ORDER_NOT_FOUND,
            *(f"GET /store/orders/{number}" for number in IDS)),
    refused("body_that_is_no_json_is_refused", "D3, D29", "A body that is not JSON", Code.MALFORMED_JSON,
            "POST /pets", body=b'{"name": '),
    refused("other_media_type_is_refused", "D2", "A body of another media type",
            Code.UNSUPPORTED_MEDIA_TYPE, "POST /pets", body=b"conformance", headers=TEXT),
    refused("large_body_is_refused", "D2", "A body of more than 64 KiB", Code.PAYLOAD_TOO_LARGE,
            "POST /pets", body=b" " * (64 * 1024 + 1)),
    refused("unknown_category_is_refused", "D5", "A pet of a category that is none", Code.UNKNOWN_CATEGORY,
            "POST /pets", body={"name": "Conformance check", "categoryId": -1}, writes=True),
    refused("unknown_pet_is_not_ordered", "D14", "An order of a pet that is none", Code.PET_NOT_FOUND,
            "POST /store/orders", body={"petId": -1}, writes=True),
]  # fmt: skip
CHECKS += REFUSALS


@check("D6")
def bad_filters_and_cursors_are_refused(session: Session) -> None:
    """A value that a filter does not take, or a cursor that no list gave, is 400 invalid_parameter."""
    filters = [(one.path, each.name) for one in lists() for each in one.filters]
    for path, name in [*filters, ("/pets", "cursor")]:
        expect_error(session.send("GET", f"{path}?{name}=conformance"), Code.INVALID_PARAMETER)


@check("D29")
def every_missing_field_is_named(session: Session) -> None:
    """A body without its required fields is 400 missing_field, and details name all of them."""
    expect_details(session, {}, Code.MISSING_FIELD, schemas()["NewPet"]["required"])


@check("D3", writes=True)
def wrong_types_are_refused(session: Session) -> None:
    """Values of a wrong type are 400 invalid_field, all of them at once."""
    body = {name: "1" if schema.get("type") == "integer" else 7 for name, schema in new_pet().items()}
    expect_details(session, body, Code.INVALID_FIELD, body)


def expect_details(session: Session, body: Row, code: Code, fields: Iterable[str]) -> None:
    """Raise BrokenError unless a new pet gets this Error, with details of exactly these fields."""
    response = session.send("POST", "/pets", body)
    named = sorted(detail["field"] for detail in expect_error(response, code).get("details", []))
    response.expect(named == sorted(fields), f"details name {named}, not {sorted(fields)}.")


@check("D30")
def long_url_is_refused(session: Session) -> None:
    """A URL that is too long is 414, by the service or by the server before it; never a failure."""
    response = session.send("GET", f"/pets?x={'x' * 8_300}")
    response.expect(response.status in {414, 400, 431}, f"answers {response.status}, not 414.")
    if "X-Request-Id" in response.headers:
        expect_error(response, Code.URI_TOO_LONG)
    else:  # A server's own plain answer is allowed.
        session.responses.remove(response)
        session.keyed.remove(response)


# --- What adds and changes, for `--write` only. It leaves one pet, which the API can't delete ----

NAME = "Conformance check"
ORDERS = "/store/orders"
REQUESTS = 14  # What the longest check sends.
# Seconds before each poll: events are in the feed shortly after what they tell of.
PAUSES = (0, 0.3, 0.3, 0.5, 1, 2, 3, 5)
PAGE = 100


def idempotency_key() -> dict[str, str]:
    return {"Idempotency-Key": f"conformance-{secrets.token_hex(8)}"}


def expect_created_once(
    session: Session, made: Response, path: str, body: Row, key: dict[str, str]
) -> None:
    """Raise BrokenError unless 201 says where it is, and comes again for the same Idempotency-Key."""
    again = session.send("POST", path, body, headers=key)
    again.expect_status(201, "with the same Idempotency-Key: ")
    again.expect(again.body == made.body, "with the same Idempotency-Key: another answer.")
    again.expect_equal("Idempotent-Replayed", again.header("Idempotent-Replayed"), "true")
    for response in (made, again):
        place = f"{session.url}{path}/{made.json()['id']}"
        response.expect_equal("Location", response.header("Location"), place)


@contextmanager
def ordered(session: Session, body: Row, key: dict[str, str]) -> Iterator[Response]:
    """Place an order, and cancel it whatever is found meanwhile."""
    made = session.send("POST", ORDERS, body, headers=key).expect_status(201)
    number = made.json()["id"]
    session.left_behind.append(f"order {number}, not cancelled")
    try:
        yield made
    finally:
        gone = session.send("DELETE", f"{ORDERS}/{number}")
        if gone.status == 204:
            session.left_behind.pop()
    gone.expect_status(204)
    expect_members(gone, session.send("GET", f"{ORDERS}/{number}").json(), {"status": "cancelled"})


@check("D3, D4, D8, D12, D14, D31", writes=True)
def pet_is_added_ordered_and_free_again(session: Session) -> None:
    """A pet is added once, ordered once, and available again after the order is cancelled."""
    session.spare_quota(REQUESTS)  # Half of it would leave an order behind.
    categories, _ = session.page("/categories?limit=1")
    if not categories:
        raise NothingToCheckError("There are no categories.")
    category, key = categories[0]["id"], idempotency_key()
    body = {"id": 1, "name": f" {NAME} ", "categoryId": category, "colour": "grey"}
    made = session.send("POST", "/pets", body, headers=key).expect_status(201)
    pet = made.json()
    session.left_behind.append(f"pet {pet['id']} ({NAME}); the API can't delete it")
    defaults = {name: schema["default"] for name, schema in new_pet().items() if "default" in schema}
    expect_members(made, pet, defaults | {"name": NAME, "categoryId": category})
    made.expect("colour" not in pet, "the new pet has a member that no pet has.")
    expect_created_once(session, made, "/pets", body, key)
    other = session.send("POST", "/pets", body | {"name": "Another"}, headers=key)
    expect_error(other, Code.IDEMPOTENCY_KEY_REUSED)
    orders = order_twice(session, {"petId": pet["id"]})
    session.written = {"pet": [("pet.created", {"pet": pet})], "order": []}
    for order in orders:
        for status, held in (("placed", "pending"), ("cancelled", "available")):
            session.written["order"].append((f"order.{status}", {"order": order | {"status": status}}))
            session.written["pet"].append(("pet.status_changed", {"pet": pet | {"status": held}}))


def order_twice(session: Session, body: Row) -> list[Row]:
    """Order the pet, try to order it again, cancel the order, and order it once more."""
    key = idempotency_key()
    with ordered(session, body, key) as made:
        wanted = {"quantity": 1, "status": "placed", "shipDate": None, "complete": False}
        expect_members(made, made.json(), body | wanted)
        expect_created_once(session, made, ORDERS, body, key)
        expect_error(session.send("POST", ORDERS, body), Code.PET_NOT_AVAILABLE)
        found = session.send("GET", f"{ORDERS}/{made.json()['id']}")
        found.expect(found.body == made.body, "the order is another than the one placed.")
    with ordered(session, body, idempotency_key()) as again:
        return [made.json(), again.json()]


@check("D40, D41", writes=True)
def feed_tells_once_of_all_that_was_written(session: Session) -> None:
    """The feed tells of the new pet and its orders: each step once, in order, and so a second time."""
    if not (session.feed_end and session.written):
        raise NotRunError("Other checks did not get so far that there is something to follow.")
    session.spare_quota(len(PAUSES) + 3)
    events: list[Row] = []
    path = session.feed_end
    for pause in PAUSES:
        time.sleep(pause)
        page, path = session.feed(path)
        events += page
        came = steps(session, events)
        if all(len(came[subject]) >= len(told) for subject, told in session.written.items()):
            break
    events += session.feed(path)[0]  # What comes a second time may come late.
    ids = [event["id"] for event in events]
    if ids != sorted(set(ids)):
        raise BrokenError(f"GET /events: ids repeat, or don't ascend, over pages: {ids}.")
    came = steps(session, events)
    if came != session.written:
        raise BrokenError(f"GET /events: it tells {came}, not {session.written}.")
    orders = [event for event in events if event["type"].startswith("order.")]
    for query, told in (("", events), ("&type=order", orders)):
        again = session.feed(f"{session.feed_end}{query}")[0]
        if again[: len(told)] != told[:PAGE]:
            raise BrokenError(f"GET /events{query}: other events came, or in another order, a second time.")


def steps(session: Session, events: list[Row]) -> dict[str, list[tuple[str, Row]]]:
    """Return types and data of the events about the new pet, and about its orders."""
    pet_id = session.written["pet"][0][1]["pet"]["id"]
    return {
        subject: [
            (event["type"], event["data"])
            for event in events
            if event["data"].get(subject, {}).get(id_member) == pet_id
        ]
        for subject, id_member in (("pet", "id"), ("order", "petId"))
    }


# --- Every response that came, the numbers of the quota above all. These send nothing ------------


def quota_of(response: Response) -> tuple[int, int, int]:
    """Return the limit, what remains, and the reset, of X-RateLimit."""
    limit, remaining, reset = (
        int(response.header(f"X-RateLimit-{name}")) for name in ("Limit", "Remaining", "Reset")
    )
    return limit, remaining, reset


@check('The contract, "Endpoints"; D29')
def every_answer_is_documented(session: Session) -> None:
    """Every answer is one that the OpenAPI document gives to its operation; every refusal is an Error."""
    faults: dict[str, str] = {}  # The first of each operation.
    for response in session.responses:
        operation = operation_of(response)
        try:
            if operation:
                expect_documented(response, operation)
            if response.status >= 400 and not response.request.startswith("HEAD "):
                expect_error(response)
        except BrokenError as error:
            faults.setdefault(operation.get("operationId", ""), str(error))
    if faults:
        raise BrokenError(" ".join(faults.values()))


@check("D29")
def no_answer_is_a_failure(session: Session) -> None:
    """No answer is a 5xx."""
    for response in session.responses:
        response.expect(response.status < 500, f"answers {response.status}.")


@check('The contract, "Rate limit headers"; D23')
def every_answer_tells_the_quota(session: Session) -> None:
    """Every answer has the three X-RateLimit headers, which agree with RateLimit and RateLimit-Policy."""
    for response in session.responses:
        limit, remaining, reset = quota_of(response)
        policy = {name: int(quota) for name, quota in POLICY.findall(response.header("RateLimit-Policy"))}
        windows = {name: (int(r), int(t)) for name, r, t in WINDOW.findall(response.header("RateLimit"))}
        response.expect(windows and windows.keys() == policy.keys(), "RateLimit lacks a window.")
        if response.status == 429:
            continue  # A ban is no window; see refusal_says_when_to_come_back.
        least = min(left for left, _ in windows.values())
        response.expect(remaining == least, f"{remaining} remain, but the least window has {least}.")
        shown = [name for name, (left, _) in windows.items() if left == least and policy[name] == limit]
        response.expect(shown, f"X-RateLimit-Limit {limit} is not that window's.")
        near = any(abs(reset - response.now - windows[name][1]) <= SLACK_SECONDS for name in shown)
        response.expect(near, f"X-RateLimit-Reset {reset} is not when that window ends.")


@check("D21, D39")
def every_request_costs(session: Session) -> None:
    """Within a window each request with the key leaves less than the one before; `getAccount` need not."""
    pairs = 0
    for before, after in pairwise(session.keyed):
        (limit, left, reset), (limit_after, left_after, reset_after) = quota_of(before), quota_of(after)
        if (limit, reset) == (limit_after, reset_after) and after.status != 429:
            pairs += 1
            most = left if after.request == "GET /account" else left - 1  # D39
            after.expect(left_after <= most, f"{left_after} remain, and {left} did one request before.")
    if not pairs:
        raise NothingToCheckError("No two requests came in one window.")


@check("D24")
def refusal_says_when_to_come_back(session: Session) -> None:
    """A 429 has no requests left, Retry-After of at least a second, and Reset at the same moment."""
    rejected = [response for response in session.responses if response.status == 429]
    if not rejected:
        raise NothingToCheckError("No request was refused, and none is made to be.")
    for response in rejected:
        wait = int(response.header("Retry-After"))
        response.expect(wait >= 1, f"Retry-After is {wait}, less than a second.")
        _, left, reset = quota_of(response)
        response.expect(left == 0, f"refused, though {left} remain.")
        off = abs(reset - (response.now + wait))
        response.expect(off <= SLACK_SECONDS, f"Reset and Retry-After are {off:.0f} s apart.")


@check("D29")
def every_answer_has_an_id_of_its_own(session: Session) -> None:
    """Every answer has an X-Request-Id, no two the same unless that was asked for."""
    seen: set[str] = set()
    for response in session.responses:
        request_id = response.header("X-Request-Id")
        response.expect(request_id not in seen, f"the X-Request-Id {request_id} was another answer's.")
        seen.add(request_id)


@check("D32")
def caches_keep_callers_apart(session: Session) -> None:
    """Every answer varies by Authorization."""
    for response in session.responses:
        names = {name.strip().lower() for name in response.header("Vary").split(",")}
        response.expect(names & {"authorization", "*"}, "Vary lacks Authorization.")
