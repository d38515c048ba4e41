"""Rules that the OpenAPI document can't express. The last ones examine all responses. Times are seconds."""

import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from itertools import pairwise
from urllib.parse import urlencode, urlsplit

import pytest
from requests import Response

from petstore.api.openapi.lists import get_list_filters
from tests.conformance.client import (
    Client,
    Row,
    expect_error,
    expect_members,
    parse_date,
    parse_quota,
    parse_windows,
)
from tests.conformance.document import DOCUMENT, validate

SUNSET = "Thu, 05 Dec 2030 00:00:00 GMT"  # Of getPet (D33).
IS_REMOVED = time.time() >= parsedate_to_datetime(SUNSET).timestamp()
PET_NOT_FOUND = (410, "endpoint_removed") if IS_REMOVED else (404, "pet_not_found")
WITHOUT_KEY: Row = {"headers": {"Authorization": None}}
LISTS = get_list_filters().items()
NEW_PET = DOCUMENT.raw_schema["components"]["schemas"]["NewPet"]


# --- Reads


def test_lists_are_paginated(client: Client) -> None:
    """The contract, "List pets"; D9, D10: pages of `limit` items, by default 20, ascending by id."""
    for path, _ in LISTS:
        expected_ids = [row["id"] for row in client.fetch_page(path)[0]]
        rows, next_path = client.fetch_page(f"{path}?limit={len(expected_ids) // 2 + 1}")
        if next_path:
            rows += client.fetch_page(next_path)[0]
        ids = [row["id"] for row in rows]
        assert ids == sorted(set(ids))
        assert ids[: len(expected_ids)] == expected_ids


def test_filters_are_applied(client: Client) -> None:
    """The contract, "List pets"; D13: filters, also combined, return only matching rows."""
    for path, all_filters in LISTS:
        filters = {name: choices for name, choices in all_filters.items() if name != "ids"}
        rows = client.fetch_page(f"{path}?limit=100")[0] if filters else []
        if not rows:
            continue
        queries = [{name: choice} for name, choices in filters.items() for choice in choices]
        queries.append({name: rows[0][name] for name in filters})
        for query in queries:
            for row in client.fetch_page(f"{path}?{urlencode(query | {'limit': 5})}")[0]:
                expect_members(row, query)


def test_ids_select_pets(client: Client) -> None:
    """D61: unknown ids are left out, and the other filters apply as well."""
    pets = client.fetch_page("/pets?limit=3")[0]
    ids = ",".join(str(pet["id"]) for pet in [{"id": -1}, *reversed(pets)])
    assert client.fetch_page(f"/pets?ids={ids}")[0] == pets
    for pet in pets:
        same = [other for other in pets if other["status"] == pet["status"]]
        assert client.fetch_page(f"/pets?ids={ids}&status={pet['status']}")[0] == same


def test_request_headers_are_honoured_or_ignored(client: Client) -> None:
    """D2, D6, D29: Accept and unknown parameters are ignored; a well-formed X-Request-Id is echoed."""
    for request_id, is_echoed in (("conformance.check-1", True), ("not well formed!", False)):
        headers = {"Accept": "text/html", "X-Request-Id": request_id}
        response = client.get("/pets?limit=1&x=1", headers=headers)
        assert (response.status_code, response.headers["Content-Type"]) == (200, "application/json")
        assert (response.headers["X-Request-Id"] == request_id) is is_echoed


def test_matching_etag_gives_304_and_head_matches_get(client: Client) -> None:
    """D2, D32"""
    get, head = client.get("/categories"), client.head("/categories")
    names = ("Content-Type", "ETag")
    assert [head.headers[name] for name in names] == [get.headers[name] for name in names]
    assert (head.status_code, head.content) == (200, b"")
    response = client.get("/categories", headers={"If-None-Match": (etag := get.headers["ETag"])})
    assert (response.status_code, response.headers["ETag"], response.content) == (304, etag, b"")
    assert client.get("/categories", headers={"If-None-Match": '"conformance"'}).status_code == 200


def test_pet_is_retrievable_by_id_until_removal(client: Client) -> None:
    """The contract, "Get a pet"; D33"""
    pets, _ = client.fetch_page("/pets?limit=1")
    if not pets:
        pytest.skip("There are no pets.")
    response = client.get(f"/pets/{pets[0]['id']}")
    if IS_REMOVED:
        expect_error(response, *PET_NOT_FOUND)
    else:  # Its status may have changed.
        expect_members(response.json() | {"status": pets[0]["status"]}, pets[0])


def test_account_reports_quota_for_free(client: Client) -> None:
    """D39: the same quota as the headers."""
    responses = [client.get("/account") for _ in range(3)]
    for response in responses:
        body = {name: window["remaining"] for name, window in response.json()["quota"].items()}
        assert body == {name: remaining for name, (remaining, _) in parse_windows(response).items()}
    used = [response.json()["quota"]["day"]["used"] for response in responses]
    increments = {after - before for before, after in pairwise(used)}
    assert increments != {1}
    if increments != {0}:
        pytest.skip("The account has concurrent users, or the day has ended.")


def test_feed_end_has_a_cursor(client: Client) -> None:
    """D40, D42: no event is in the future, and even an empty page links to the next one."""
    events, client.feed_end = client.fetch_page(
        "/events?limit=100&since=9999-12-31T23:59:59Z", is_feed=True
    )
    assert events == []


def test_deprecation_is_announced(client: Client) -> None:
    """D33: also on errors."""
    response = client.get("/pets/-1")
    assert int(response.headers["Deprecation"].removeprefix("@")) <= parse_date(response)
    assert response.headers["Sunset"] == SUNSET
    assert 'rel="successor-version"' in response.headers["Link"]
    assert f"<{client.url}/pets" in response.headers["Link"]


def test_pages_require_no_key(client: Client) -> None:
    """D38: the published document has every operation of this version."""
    base = client.url.removesuffix("/v1")
    for path in ("/", "/docs", "/healthz", "/readyz", "/openapi.yaml"):
        assert client.get(base + path, **WITHOUT_KEY).status_code == 200
    published = client.get(f"{base}/openapi.json", **WITHOUT_KEY).json()["paths"]
    for path, operations in DOCUMENT.raw_schema["paths"].items():
        assert operations.keys() <= published[path].keys()


# --- Rejections

PET_NAME = "Conformance check"
ORDERS = "/store/orders"
UNKNOWN_IDS = ("-1", "conformance", "9223372036854775808")
INVALID_QUERIES = [
    *(f"/pets?{query}" for query in ("limit=0", "limit=101", "limit=", "limit=5&limit=5")),
    *(f"{path}?{name}=x" for path, filters in LISTS for name in (*filters, "cursor")),
    *(f"/events?{name}=x" for name in ("cursor", "type", "since")),
]
MALFORMED_KEY = {"headers": {"Authorization": "Bearer psk_live_conformance_0000"}}
JSON = {"Content-Type": "application/json"}
# The rule, the request and its options, and the Error.
REJECTIONS: list[tuple[str, str, Row, tuple[int, str]]] = [
    ("D17", "GET /pets", WITHOUT_KEY, (401, "missing_api_key")),
    ("D17", "GET /conformance", WITHOUT_KEY, (401, "missing_api_key")),
    ("D16, D17", "GET /pets", MALFORMED_KEY, (401, "invalid_api_key")),
    ("D29", "GET /conformance", {}, (404, "resource_not_found")),
    ("D1", "GET /pets/", {}, (404, "resource_not_found")),
    ("D29", "PUT /categories", {}, (405, "method_not_allowed")),
    *(("D6, D40", f"GET {query}", {}, (400, "invalid_parameter")) for query in INVALID_QUERIES),
    *(("D7, D33", f"GET /pets/{number}", {}, PET_NOT_FOUND) for number in UNKNOWN_IDS),
    *(("D14", f"GET {ORDERS}/{number}", {}, (404, "order_not_found")) for number in UNKNOWN_IDS),
    ("D3, D29", "POST /pets", {"data": b'{"name": ', "headers": JSON}, (400, "malformed_json")),
    ("D2", "POST /pets", {"data": b"x", "headers": {"Content-Type": "text/plain"}},
     (415, "unsupported_media_type")),
    ("D2", "POST /pets", {"data": b" " * (64 * 1024 + 1), "headers": JSON}, (413, "payload_too_large")),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "request_line", "options", "error"), REJECTIONS)
def test_request_is_rejected(
    client: Client, rule: str, request_line: str, options: Row, error: tuple[int, str]
) -> None:
    response = client.request(*request_line.split(" ", 1), **options)
    expect_error(response, *error)
    assert error[0] != 401 or "Bearer" in response.headers["WWW-Authenticate"]
    assert error[0] != 405 or "GET" in response.headers["Allow"]


def test_every_missing_field_is_reported(client: Client) -> None:
    """D29"""
    body = expect_error(client.post("/pets", json={}), 400, "missing_field")
    assert sorted(detail["field"] for detail in body["details"]) == sorted(NEW_PET["required"])


@pytest.mark.writes  # If the deployment accepts them.
def test_wrong_types_and_references_are_rejected(client: Client) -> None:
    """D3, D5, D14: all wrong types are reported."""
    types = {name: schema.get("type") for name, schema in NEW_PET["properties"].items()}
    wrong = {name: "1" if kind == "integer" else 7 for name, kind in types.items()}
    body = expect_error(client.post("/pets", json=wrong), 400, "invalid_field")
    assert sorted(detail["field"] for detail in body["details"]) == sorted(wrong)
    pet: Row = {"name": PET_NAME, "categoryId": -1}
    expect_error(client.post("/pets", json=pet), 400, "unknown_category")
    expect_error(client.post(ORDERS, json={"petId": -1}), 404, "pet_not_found")


def test_oversized_url_is_rejected(client: Client) -> None:
    """D30: by the service with 414, or by a proxy before it."""
    response = client.get(f"/pets?x={'x' * 8_300}")
    if "X-Request-Id" in response.headers:
        expect_error(response, 414, "uri_too_long")
    assert response.status_code in {400, 414, 431}


# --- Writes. They leave one pet, since the API can't delete pets

POLL_DELAYS = (0, 0.3, 0.3, 0.5, 1, 2, 3, 5)  # Seconds before each poll of the feed.


def post(client: Client, path: str, body: Row) -> Response:
    """Send the request twice with one Idempotency-Key (D31), and return the first response."""
    key = {"Idempotency-Key": f"conformance-{secrets.token_hex(8)}"}
    created, replay = (client.post(path, json=body, headers=key) for _ in range(2))
    assert (created.status_code, replay.status_code) == (201, 201)
    assert replay.content == created.content
    assert replay.headers["Idempotent-Replayed"] == "true"
    location = f"{client.url}{path}/{created.json()['id']}"
    assert created.headers["Location"] == replay.headers["Location"] == location
    expect_error(client.post(path, json={**body, "more": 1}, headers=key), 422, "idempotency_key_reused")
    return created


@contextmanager
def placed_order(client: Client, body: Row) -> Iterator[Row]:
    """Place an order, and cancel it on exit."""
    placed = post(client, ORDERS, body)
    order: Row = placed.json()
    client.left_behind.append(f"order {order['id']}, not cancelled")
    try:
        fetched = client.get(f"{ORDERS}/{order['id']}")
        assert fetched.content == placed.content
        yield order
    finally:
        assert client.delete(f"{ORDERS}/{order['id']}").status_code == 204
        client.left_behind.pop()
    expect_members(client.get(f"{ORDERS}/{order['id']}").json(), {"status": "cancelled"})


@pytest.mark.writes
def test_pet_is_created_ordered_and_released(client: Client) -> None:
    """D3, D4, D8, D12, D14, D31"""
    categories, _ = client.fetch_page("/categories?limit=1")
    if not categories:
        pytest.skip("There are no categories.")
    category = {"categoryId": categories[0]["id"]}
    pet = post(client, "/pets", {"id": 1, "name": f" {PET_NAME} ", "colour": "grey"} | category).json()
    client.left_behind.append(f"pet {pet['id']} ({PET_NAME}); the API can't delete it")
    defaults = {name: part["default"] for name, part in NEW_PET["properties"].items() if "default" in part}
    expect_members(pet, defaults | {"name": PET_NAME} | category)
    assert "colour" not in pet
    body = {"petId": pet["id"]}
    pet_events, order_events = [("pet.created", {"pet": pet})], []
    for _ in range(2):
        with placed_order(client, body) as order:
            expect_members(
                order, body | {"quantity": 1, "status": "placed", "shipDate": None, "complete": False}
            )
            expect_error(client.post(ORDERS, json=body), 409, "pet_not_available")
        for status, pet_status in (("placed", "pending"), ("cancelled", "available")):
            order_events.append((f"order.{status}", {"order": order | {"status": status}}))
            pet_events.append(("pet.status_changed", {"pet": pet | {"status": pet_status}}))
    client.expected_events = {"pet": pet_events, "order": order_events}


@pytest.mark.writes
def test_feed_reports_every_write_once(client: Client) -> None:
    """D40, D41: in order, also when read again."""
    if not (client.feed_end and client.expected_events):
        client.skip("An earlier test failed or did not run, so the expected events are unknown.")
    events: list[Row] = []
    path = client.feed_end
    for delay in POLL_DELAYS:
        time.sleep(delay)
        page, path = client.fetch_page(path, is_feed=True)
        events += page
        if group_by_subject(client, events) == client.expected_events:
            break
    events += client.fetch_page(path, is_feed=True)[0]  # Finds duplicates that arrive late.
    ids = [event["id"] for event in events]
    assert ids == sorted(set(ids))
    assert group_by_subject(client, events) == client.expected_events
    orders = [event for event in events if event["type"].startswith("order.")]
    for query, expected in (("", events), ("&type=order", orders)):
        page, _ = client.fetch_page(f"{client.feed_end}{query}", is_feed=True)
        assert page[: len(expected)] == expected[:100]


def group_by_subject(client: Client, events: list[Row]) -> dict[str, list[tuple[str, Row]]]:
    pet_id = client.expected_events["pet"][0][1]["pet"]["id"]
    return {
        subject: [
            (event["type"], event["data"])
            for event in events
            if event["data"].get(subject, {}).get(member) == pet_id
        ]
        for subject, member in (("pet", "id"), ("order", "petId"))
    }


# --- The responses to all other tests


def test_every_response_is_documented(client: Client) -> None:
    """The contract, "Endpoints"; D29: and every rejection is an Error."""
    for response in client.responses:
        method, path = str(response.request.method), str(response.request.url).removeprefix(client.url)
        if method != "HEAD":  # Whose body is empty.
            validate(response, method, urlsplit(path).path)
            assert response.status_code < 400 or response.json()["status"] == response.status_code < 500


def test_every_response_reports_the_quota(client: Client) -> None:
    """The contract, "Rate limit headers"; D23: X-RateLimit is the smaller window of RateLimit."""
    for response in client.responses:
        limit, remaining, reset = parse_quota(response)
        policy = dict(re.findall(r'"(\w+)";q=(\d+);w=\d+', response.headers["RateLimit-Policy"]))
        windows = parse_windows(response)
        assert windows.keys() == policy.keys() != set()
        if response.status_code == 429:  # It may be a ban, which has no window.
            continue
        assert remaining == min(left for left, _ in windows.values())
        assert any(
            (left, int(policy[name])) == (remaining, limit)
            and abs(reset - parse_date(response) - seconds) <= 2
            for name, (left, seconds) in windows.items()
        )


def test_every_request_uses_quota(client: Client) -> None:
    """D21, D39: except getAccount."""
    for before, after in pairwise(client.authenticated_responses):
        limit, remaining, reset = parse_quota(before)
        next_limit, next_remaining, next_reset = parse_quota(after)
        if (limit, reset) == (next_limit, next_reset) and after.status_code != 429:
            is_free = after.request.path_url.endswith("/account")
            assert next_remaining <= remaining - (not is_free)


def test_every_429_has_retry_after(client: Client) -> None:
    """D24: consistent with X-RateLimit-Reset, and 0 requests remain. The suite provokes none."""
    for response in client.responses:
        if response.status_code == 429:
            _, remaining, reset = parse_quota(response)
            wait = int(response.headers["Retry-After"])
            assert (wait >= 1, remaining) == (True, 0)
            assert abs(reset - (parse_date(response) + wait)) <= 2


def test_every_response_has_a_unique_request_id_and_vary(client: Client) -> None:
    """D29, D32"""
    request_ids = [response.headers["X-Request-Id"] for response in client.responses]
    assert len(set(request_ids)) == len(request_ids)
    for response in client.responses:
        assert {"authorization", "*"} & set(re.split(r",\s*", response.headers["Vary"].lower()))
