"""All checks, in the order in which they run. Those at the end examine the responses of the others."""

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
from petstore.api.openapi.lists import get_list_filters
from petstore.api.openapi.views import get_document
from petstore.conformance.client import Headers, Response, ViolationError, exchange
from petstore.conformance.document import expect_documented, expect_error, find_operation, get_schemas
from petstore.conformance.session import USER_AGENT, Check, NothingToCheckError, NotRunError, Session

JsonObject = dict[str, Any]

CHECKS: list[Check] = []
GET_PET_REMOVED = timezone.now() >= settings.GET_PET_REMOVED_AT  # D33
SUNSET = "Thu, 05 Dec 2030 00:00:00 GMT"
PUBLIC_PAGES = ("/", "/docs", "/healthz", "/readyz", "/openapi.yaml")
# The windows of RateLimit-Policy and RateLimit (D28).
POLICY = re.compile(r'"(\w+)";q=(\d+);w=\d+')
WINDOW = re.compile(r'"(\w+)";r=(\d+);t=(\d+)')
TOLERANCE = 2  # Seconds by which two times may differ.


def check(rule: str, *, writes: bool = False) -> Callable[[Callable[[Session], None]], None]:
    """Register a function as a check. Its docstring is the title in the report."""

    def register(function: Callable[[Session], None]) -> None:
        title = (function.__doc__ or "").strip().rstrip(".")
        CHECKS.append(Check(function.__name__, rule, title, function, writes))

    return register


def expect_members(response: Response, row: JsonObject, expected: JsonObject) -> None:
    different = {name: row[name] for name, value in expected.items() if row[name] != value}
    response.expect(not different, f"the response has {different}, not {expected}.")


# --- Pagination, caching, deprecation and pages outside /v1 ---------------------------------------


@check('The contract, "List pets"; D9, D10')
def lists_are_paginated(session: Session) -> None:
    """Lists have pages of `limit` items, by default 20, ascending by id, with a Link to the next page."""
    for path in get_list_filters():
        expected_ids = [row["id"] for row in session.fetch_page(path)[0]]
        limit = len(expected_ids) // 2 + 1
        rows, next_path = session.fetch_page(f"{path}?limit={limit}")
        if next_path:
            rows += session.fetch_page(next_path)[0]
        ids = [row["id"] for row in rows]
        if ids != sorted(set(ids)) or ids[: len(expected_ids)] != expected_ids:
            raise ViolationError(f"GET {path}: pages of {limit} have {ids}, not {expected_ids}.")


@check('The contract, "List pets"; D13')
def filters_are_applied(session: Session) -> None:
    """Each filter of a list, and all filters combined, return only matching rows."""
    for path, filters in get_list_filters().items():
        rows = session.fetch_page(f"{path}?limit=100")[0] if filters else []
        if not rows:
            continue
        queries = [{name: choice} for name, choices in filters.items() for choice in choices]
        combined = {name: rows[0][name] for name in filters}
        if combined not in queries:
            queries.append(combined)
        for query in queries:
            for row in session.fetch_page(f"{path}?{urlencode(query | {'limit': 5})}")[0]:
                expect_members(session.responses[-1], row, query)


@check("D2, D6")
def accept_header_is_ignored(session: Session) -> None:
    """The response is JSON regardless of Accept, and unknown query parameters are ignored."""
    session.send("GET", "/pets?limit=1&x=1", headers={"Accept": "text/html"}).expect_status(200).json()


@check("D29")
def request_id_is_echoed(session: Session) -> None:
    """A well-formed X-Request-Id is echoed; a malformed one is replaced."""
    for request_id, is_echoed in (("conformance.check-1", True), ("not well formed!", False)):
        response = session.send("GET", "/pets?limit=1", headers={"X-Request-Id": request_id})
        received = response.header("X-Request-Id")
        is_expected = (received == request_id) is is_echoed
        response.expect(is_expected, f"X-Request-Id {request_id!r} was returned as {received!r}.")


@check("D32")
def matching_etag_gives_304(session: Session) -> None:
    """If-None-Match with the current ETag gives 304 without a body; with another ETag, 200."""
    etag = session.send("GET", "/categories").header("ETag")
    response = session.send("GET", "/categories", headers={"If-None-Match": etag})
    response.expect_status(304, "with the current ETag: ")
    response.expect_equal("the ETag of the 304", response.header("ETag"), etag)
    response.expect(not response.body, "the 304 has a body.")
    response = session.send("GET", "/categories", headers={"If-None-Match": '"conformance"'})
    response.expect_status(200, "with another ETag: ")


@check("D2")
def head_matches_get(session: Session) -> None:
    """HEAD gets the same response as GET, without a body."""
    get = session.send("GET", "/categories")
    head = session.send("HEAD", "/categories").expect_status(200)
    head.expect(not head.body, "the response has a body.")
    for name in ("Content-Type", "ETag"):
        head.expect_equal(name, head.header(name), get.header(name))


@check('The contract, "Get a pet"; D33')
def pet_is_retrievable_by_id(session: Session) -> None:
    """getPet returns the pet as listed, although its status may have changed; once removed, 410."""
    pets, _ = session.fetch_page("/pets?limit=1")
    if not pets:
        raise NothingToCheckError("There are no pets.")
    response = session.send("GET", f"/pets/{pets[0]['id']}")
    if GET_PET_REMOVED:
        expect_error(response, Code.ENDPOINT_REMOVED)
    else:
        pet = response.expect_status(200).json()
        expect_members(response, pet | {"status": pets[0]["status"]}, pets[0])


@check("D39")
def account_reports_quota_for_free(session: Session) -> None:
    """The account reports the same quota as the headers, and reading it uses none."""
    responses = [session.send("GET", "/account").expect_status(200) for _ in range(3)]
    for response in responses:
        body = {name: window["remaining"] for name, window in response.json()["quota"].items()}
        header = {name: remaining for name, (remaining, _) in parse_windows(response).items()}
        response.expect(body == header, f"the body has {body}, but RateLimit has {header}.")
    used = [response.json()["quota"]["day"]["used"] for response in responses]
    increments = {after - before for before, after in pairwise(used)}
    responses[-1].expect(increments != {1}, "each read counts against the daily quota.")
    if increments != {0}:
        raise NothingToCheckError("The account has concurrent users, or the day has ended.")


@check("D40, D42")
def feed_end_has_a_cursor(session: Session) -> None:
    """The feed has no future events, and even an empty page links to the next one."""
    path = "/events?limit=100&since=9999-12-31T23:59:59Z"
    events, session.feed_end = session.fetch_page(path, is_feed=True)
    if events:
        raise ViolationError(f"GET /events: {len(events)} events are in the future.")


@check("D33")
def deprecation_is_announced(session: Session) -> None:
    """getPet announces its deprecation, removal and replacement, on errors as well."""
    response = session.send("GET", "/pets/-1")
    since = response.header("Deprecation")
    response.expect(since[0] == "@" and int(since[1:]) <= response.date, f"Deprecation is {since!r}.")
    response.expect_equal("Sunset", response.header("Sunset"), SUNSET)
    links = ", ".join(response.headers.get_all("Link", []))
    has_successor = 'rel="successor-version"' in links and f"<{session.url}/pets" in links
    response.expect(has_successor, f"Link {links!r} has no successor-version under {session.url}.")


@check("D38")
def pages_require_no_key(session: Session) -> None:
    """Documentation and health checks are public, and the OpenAPI document has every operation."""
    base = session.url.removesuffix("/v1")
    for path in PUBLIC_PAGES:
        exchange(base, "GET", path, USER_AGENT).expect_status(200)
    response = exchange(base, "GET", "/openapi.json", USER_AGENT).expect_status(200)
    missing = get_operation_names(get_document()) - get_operation_names(response.json())
    response.expect(not missing, f"the document lacks {', '.join(sorted(missing))}.")


def get_operation_names(document: dict[str, Any]) -> set[str]:
    return {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}


# --- Rejections -----------------------------------------------------------------------------------

UNKNOWN_IDS = ("-1", "conformance", "9223372036854775808")
FEED_PARAMETERS = ("cursor", "type", "since")
INVALID_LIMITS = ("limit=0", "limit=101", "limit=", "limit=5&limit=5")
MALFORMED_KEY = {"Authorization": "Bearer psk_live_conformance_0000"}
PLAIN_TEXT = {"Content-Type": "text/plain"}


def rejects(
    name: str, rule: str, description: str, code: Code, *requests: str, writes: bool = False, **options: Any
) -> Check:
    """Create a check that each request gets this Error. The options are those of Session.send."""

    def send_all(session: Session) -> None:
        for request in requests:
            method, path = request.split(" ", 1)
            expect_error(session.send(method, path, **options), code)

    return Check(name, rule, f"{description}: {code.status} {code.value}", send_all, writes)


REJECTIONS = [
    rejects("missing_key_is_rejected", "D17", "A request without a key", Code.MISSING_API_KEY,
            "GET /pets", authenticated=False),
    rejects("malformed_key_is_rejected", "D16, D17", "A malformed key", Code.INVALID_API_KEY,
            "GET /pets", authenticated=False, headers=MALFORMED_KEY),
    rejects("authentication_precedes_routing", "D17", "An unknown path without a key",
            Code.MISSING_API_KEY, "GET /conformance", authenticated=False),
    rejects("unknown_path_is_not_found", "D29", "An unknown path", Code.RESOURCE_NOT_FOUND,
            "GET /conformance"),
    rejects("trailing_slash_is_not_redirected", "D1", "A path with a trailing slash (not redirected)",
            Code.RESOURCE_NOT_FOUND, "GET /pets/"),
    rejects("unsupported_method_is_rejected", "D29", "An unsupported method",
            Code.METHOD_NOT_ALLOWED, "PUT /categories"),
    rejects("limit_out_of_range_is_rejected", "D6", "A limit outside 1..100, empty or repeated",
            Code.INVALID_PARAMETER, *(f"GET /pets?{query}" for query in INVALID_LIMITS)),
    rejects("invalid_feed_parameters_are_rejected", "D6, D40", "An invalid cursor, type or time",
            Code.INVALID_PARAMETER, *(f"GET /events?{name}=conformance" for name in FEED_PARAMETERS)),
    rejects("unknown_pet_is_not_found", "D7, D33", "A pet id that does not exist or is not an int64",
            Code.ENDPOINT_REMOVED if GET_PET_REMOVED else Code.PET_NOT_FOUND,
            *(f"GET /pets/{unknown_id}" for unknown_id in UNKNOWN_IDS)),
    rejects("unknown_order_is_not_found", "D14", "An order id that does not exist or is not an int64",
            Code.ORDER_NOT_FOUND, *(f"GET /store/orders/{unknown_id}" for unknown_id in UNKNOWN_IDS)),
    rejects("malformed_json_is_rejected", "D3, D29", "A body that is not JSON", Code.MALFORMED_JSON,
            "POST /pets", body=b'{"name": '),
    rejects("unsupported_media_type_is_rejected", "D2", "A body of an unsupported media type",
            Code.UNSUPPORTED_MEDIA_TYPE, "POST /pets", body=b"conformance", headers=PLAIN_TEXT),
    rejects("oversized_body_is_rejected", "D2", "A body of more than 64 KiB", Code.PAYLOAD_TOO_LARGE,
            "POST /pets", body=b" " * (64 * 1024 + 1)),
    rejects("unknown_category_is_rejected", "D5", "A pet of an unknown category", Code.UNKNOWN_CATEGORY,
            "POST /pets", body={"name": "Conformance check", "categoryId": -1}, writes=True),
    rejects("order_of_unknown_pet_is_rejected", "D14", "An order of an unknown pet", Code.PET_NOT_FOUND,
            "POST /store/orders", body={"petId": -1}, writes=True),
]  # fmt: skip
CHECKS += REJECTIONS


@check("D6")
def invalid_filters_and_cursors_are_rejected(session: Session) -> None:
    """An invalid filter value or cursor gives 400 invalid_parameter."""
    urls = ["/pets?cursor=conformance"]
    for path, filters in get_list_filters().items():
        urls += [f"{path}?{name}=conformance" for name in filters]
    for url in urls:
        expect_error(session.send("GET", url), Code.INVALID_PARAMETER)


@check("D29")
def every_missing_field_is_reported(session: Session) -> None:
    """A body without its required fields gives 400 missing_field, with details of all of them."""
    expect_details(session, {}, Code.MISSING_FIELD, get_schemas()["NewPet"]["required"])


@check("D3", writes=True)
def wrong_types_are_rejected(session: Session) -> None:
    """Values of wrong types give 400 invalid_field, with details of all of them."""
    schemas = get_schemas()["NewPet"]["properties"]
    body = {name: "1" if schema.get("type") == "integer" else 7 for name, schema in schemas.items()}
    expect_details(session, body, Code.INVALID_FIELD, body)


def expect_details(session: Session, body: JsonObject, code: Code, fields: Iterable[str]) -> None:
    response = session.send("POST", "/pets", body)
    details = expect_error(response, code).get("details", [])
    reported = sorted(detail["field"] for detail in details)
    response.expect(reported == sorted(fields), f"details has {reported}, not {sorted(fields)}.")


@check("D30")
def oversized_url_is_rejected(session: Session) -> None:
    """An oversized URL gives 414 from the service, or 400, 414 or 431 from a proxy."""
    response = session.send("GET", f"/pets?x={'x' * 8_300}")
    response.expect(response.status in {414, 400, 431}, f"the status is {response.status}, not 414.")
    if "X-Request-Id" in response.headers:
        expect_error(response, Code.URI_TOO_LONG)
    else:  # From a proxy.
        session.responses.remove(response)
        session.authenticated_responses.remove(response)


# --- Writes: run with --write only. They leave one pet, since the API can't delete pets -----------

PET_NAME = "Conformance check"
ORDERS_PATH = "/store/orders"
MAX_WRITE_REQUESTS = 14  # Of the check that creates and orders a pet: 13, and one to spare.
POLL_DELAYS = (0, 0.3, 0.3, 0.5, 1, 2, 3, 5)  # Seconds before each poll.
PAGE_SIZE = 100


def new_idempotency_key() -> Headers:
    return {"Idempotency-Key": f"conformance-{secrets.token_hex(8)}"}


def expect_created_once(
    session: Session, created: Response, path: str, body: JsonObject, key: Headers
) -> None:
    """Check Location, and the replay for the same Idempotency-Key."""
    replay = session.send("POST", path, body, headers=key)
    replay.expect_status(201, "with the same Idempotency-Key: ")
    replay.expect(replay.body == created.body, "with the same Idempotency-Key: the response differs.")
    replay.expect_equal("Idempotent-Replayed", replay.header("Idempotent-Replayed"), "true")
    location = f"{session.url}{path}/{created.json()['id']}"
    for response in (created, replay):
        response.expect_equal("Location", response.header("Location"), location)


@contextmanager
def temporary_order(session: Session, body: JsonObject, key: Headers) -> Iterator[Response]:
    """Place an order, and cancel it on exit."""
    placed = session.send("POST", ORDERS_PATH, body, headers=key).expect_status(201)
    order_id = placed.json()["id"]
    session.left_behind.append(f"order {order_id}, not cancelled")
    try:
        yield placed
    finally:
        cancelled = session.send("DELETE", f"{ORDERS_PATH}/{order_id}")
        if cancelled.status == 204:
            session.left_behind.pop()
    cancelled.expect_status(204)
    expect_members(
        cancelled, session.send("GET", f"{ORDERS_PATH}/{order_id}").json(), {"status": "cancelled"}
    )


@check("D3, D4, D8, D12, D14, D31", writes=True)
def pet_is_created_ordered_and_released(session: Session) -> None:
    """A pet and its orders are created once each, and the pet is available again after a cancellation."""
    session.require_quota(MAX_WRITE_REQUESTS)  # An interrupted check would leave an order behind.
    categories, _ = session.fetch_page("/categories?limit=1")
    if not categories:
        raise NothingToCheckError("There are no categories.")
    category_id = categories[0]["id"]
    key = new_idempotency_key()
    body = {"id": 1, "name": f" {PET_NAME} ", "categoryId": category_id, "colour": "grey"}
    created = session.send("POST", "/pets", body, headers=key).expect_status(201)
    pet = created.json()
    session.left_behind.append(f"pet {pet['id']} ({PET_NAME}); the API can't delete it")
    schemas = get_schemas()["NewPet"]["properties"]
    defaults = {name: schema["default"] for name, schema in schemas.items() if "default" in schema}
    expect_members(created, pet, defaults | {"name": PET_NAME, "categoryId": category_id})
    created.expect("colour" not in pet, "the new pet has an unknown member.")
    expect_created_once(session, created, "/pets", body, key)
    reused = session.send("POST", "/pets", body | {"name": "Another"}, headers=key)
    expect_error(reused, Code.IDEMPOTENCY_KEY_REUSED)
    orders = order_twice(session, {"petId": pet["id"]})
    pet_events = [("pet.created", {"pet": pet})]
    order_events = []
    for order in orders:
        for status, pet_status in (("placed", "pending"), ("cancelled", "available")):
            order_events.append((f"order.{status}", {"order": order | {"status": status}}))
            pet_events.append(("pet.status_changed", {"pet": pet | {"status": pet_status}}))
    session.expected_events = {"pet": pet_events, "order": order_events}


def order_twice(session: Session, body: JsonObject) -> list[JsonObject]:
    """Order the pet, check that it can't be ordered again, cancel, and order it once more."""
    key = new_idempotency_key()
    with temporary_order(session, body, key) as first:
        defaults = {"quantity": 1, "status": "placed", "shipDate": None, "complete": False}
        expect_members(first, first.json(), body | defaults)
        expect_created_once(session, first, ORDERS_PATH, body, key)
        expect_error(session.send("POST", ORDERS_PATH, body), Code.PET_NOT_AVAILABLE)
        fetched = session.send("GET", f"{ORDERS_PATH}/{first.json()['id']}")
        fetched.expect(fetched.body == first.body, "the order differs from the one placed.")
    with temporary_order(session, body, new_idempotency_key()) as second:
        return [first.json(), second.json()]


@check("D40, D41", writes=True)
def feed_reports_every_write_once(session: Session) -> None:
    """The feed has each change to the new pet and its orders once and in order, also when read again."""
    if not (session.feed_end and session.expected_events):
        raise NotRunError("An earlier check failed or did not run, so the expected events are unknown.")
    session.require_quota(len(POLL_DELAYS) + 3)
    events: list[JsonObject] = []
    path = session.feed_end
    for delay in POLL_DELAYS:
        time.sleep(delay)
        page, path = session.fetch_page(path, is_feed=True)
        events += page
        if group_by_subject(session, events) == session.expected_events:
            break
    events += session.fetch_page(path, is_feed=True)[0]  # Finds duplicates that arrive late.
    ids = [event["id"] for event in events]
    if ids != sorted(set(ids)):
        raise ViolationError(f"GET /events: ids are not strictly ascending across pages: {ids}.")
    actual = group_by_subject(session, events)
    if actual != session.expected_events:
        raise ViolationError(f"GET /events: the events are {actual}, not {session.expected_events}.")
    orders = [event for event in events if event["type"].startswith("order.")]
    for query, expected in (("", events), ("&type=order", orders)):
        page, _ = session.fetch_page(f"{session.feed_end}{query}", is_feed=True)
        if page[: len(expected)] != expected[:PAGE_SIZE]:
            raise ViolationError(f"GET /events{query}: a second read returned other events.")


def group_by_subject(session: Session, events: list[JsonObject]) -> dict[str, list[tuple[str, JsonObject]]]:
    """Return the types and data of the events of the new pet and its orders."""
    pet_id = session.expected_events["pet"][0][1]["pet"]["id"]
    return {
        subject: [
            (event["type"], event["data"])
            for event in events
            if event["data"].get(subject, {}).get(id_member) == pet_id
        ]
        for subject, id_member in (("pet", "id"), ("order", "petId"))
    }


# --- The responses to all other checks; no further requests ---------------------------------------


def parse_quota(response: Response) -> tuple[int, int, int]:
    """Return the X-RateLimit headers: limit, remaining, reset."""
    headers = (response.header(f"X-RateLimit-{name}") for name in ("Limit", "Remaining", "Reset"))
    limit, remaining, reset = map(int, headers)
    return limit, remaining, reset


def parse_windows(response: Response) -> dict[str, tuple[int, int]]:
    """Return the windows of RateLimit: requests remaining, and seconds until the reset."""
    windows = WINDOW.findall(response.header("RateLimit"))
    return {name: (int(remaining), int(seconds)) for name, remaining, seconds in windows}


@check('The contract, "Endpoints"; D29')
def every_response_is_documented(session: Session) -> None:
    """Every response matches the OpenAPI document, and every rejection is an Error."""
    violations: dict[str, str] = {}  # The first of each operation.
    for response in session.responses:
        operation = find_operation(response)
        try:
            if operation:
                expect_documented(response, operation)
            if response.status >= 400 and not response.request.startswith("HEAD "):
                expect_error(response)
        except ViolationError as error:
            violations.setdefault(operation.get("operationId", ""), str(error))
    if violations:
        raise ViolationError(" ".join(violations.values()))


@check("D29")
def no_response_is_a_server_error(session: Session) -> None:
    """No response is a 5xx."""
    for response in session.responses:
        response.expect(response.status < 500, f"the status is {response.status}.")


@check('The contract, "Rate limit headers"; D23')
def every_response_reports_the_quota(session: Session) -> None:
    """Every response has the three X-RateLimit headers, consistent with RateLimit and RateLimit-Policy."""
    for response in session.responses:
        limit, remaining, reset = parse_quota(response)
        policy = {name: int(quota) for name, quota in POLICY.findall(response.header("RateLimit-Policy"))}
        windows = parse_windows(response)
        response.expect(windows and windows.keys() == policy.keys(), "RateLimit lacks a window.")
        if response.status == 429:
            continue  # It may be a ban, which has no window; see rejection_has_retry_after.
        least, _ = min(windows.values())
        response.expect(
            remaining == least, f"Remaining is {remaining}, but the lowest in RateLimit is {least}."
        )
        smallest = [name for name, window in windows.items() if (window[0], policy[name]) == (least, limit)]
        response.expect(smallest, f"X-RateLimit-Limit {limit} is not that of the lowest window.")
        is_end = any(abs(reset - response.date - windows[name][1]) <= TOLERANCE for name in smallest)
        response.expect(is_end, f"X-RateLimit-Reset {reset} is not the end of that window.")


@check("D21, D39")
def every_request_uses_quota(session: Session) -> None:
    """Each authenticated request, except getAccount, reduces the remaining quota."""
    pairs = 0
    for before, after in pairwise(session.authenticated_responses):
        limit, remaining, reset = parse_quota(before)
        next_limit, next_remaining, next_reset = parse_quota(after)
        if (limit, reset) == (next_limit, next_reset) and after.status != 429:
            pairs += 1
            maximum = remaining if after.request == "GET /account" else remaining - 1  # D39
            problem = f"{next_remaining} remain, but {remaining} remained after the previous request."
            after.expect(next_remaining <= maximum, problem)
    if not pairs:
        raise NothingToCheckError("No two requests were in the same window.")


@check("D24")
def rejection_has_retry_after(session: Session) -> None:
    """A 429 has 0 requests remaining, and Retry-After of at least a second, consistent with Reset."""
    rejected = [response for response in session.responses if response.status == 429]
    if not rejected:
        raise NothingToCheckError("No request got 429, and the checks provoke none.")
    for response in rejected:
        wait = int(response.header("Retry-After"))
        response.expect(wait >= 1, f"Retry-After is {wait}, less than a second.")
        _, remaining, reset = parse_quota(response)
        response.expect(remaining == 0, f"rejected although {remaining} remain.")
        gap = abs(reset - (response.date + wait))
        response.expect(gap <= TOLERANCE, f"Reset and Retry-After are {gap:.0f} s apart.")


@check("D29")
def every_response_has_a_unique_request_id(session: Session) -> None:
    """Every response has a unique X-Request-Id."""
    request_ids: set[str] = set()
    for response in session.responses:
        request_id = response.header("X-Request-Id")
        is_unique = request_id not in request_ids
        response.expect(is_unique, f"another response has the same X-Request-Id {request_id}.")
        request_ids.add(request_id)


@check("D32")
def responses_vary_by_authorization(session: Session) -> None:
    """Every response has Vary: Authorization."""
    for response in session.responses:
        names = {name.strip().lower() for name in response.header("Vary").split(",")}
        response.expect(names & {"authorization", "*"}, "Vary lacks Authorization.")
