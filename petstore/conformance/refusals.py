"""Checks of what is refused: the requests, and the Error that each of them must get."""

from typing import Any

from django.conf import settings
from django.utils import timezone

from petstore.api.errors import ErrorCode as Code
from petstore.api.openapi.lists import lists
from petstore.conformance.checks import Check, check
from petstore.conformance.client import Response
from petstore.conformance.document import expect_code, schemas
from petstore.conformance.session import Session

IDS = ("-1", "conformance", "9223372036854775808")
FEED = ("cursor", "type", "since")
LIMITS = ("limit=0", "limit=101", "limit=", "limit=5&limit=5")
TOO_LARGE = b" " * (64 * 1024 + 1)
TOO_LONG = "x" * 8_300
WRONG_KEY = {"Authorization": "Bearer psk_live_conformance_0000"}
TEXT = {"Content-Type": "text/plain"}
REMOVED = timezone.now() >= settings.GET_PET_REMOVED_AT  # getPet, by now (D33).
NO_PET = Code.ENDPOINT_REMOVED if REMOVED else Code.PET_NOT_FOUND


def refused(
    name: str, rule: str, what: str, code: Code, *requests: str, writes: bool = False, **options: Any
) -> Check:
    """Make a check that each of these requests gets this Error; the options are those of Session.send."""

    def look(session: Session) -> None:
        for request in requests:
            method, path = request.split(" ", 1)
            expect_code(session.send(method, path, **options), code)

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
    refused("unknown_pet_is_not_found", "D7, D33", "A pet id that names nothing, or is no int64", NO_PET,
            *(f"GET /pets/{pet_id}" for pet_id in IDS)),
    refused("unknown_order_is_not_found", "D14", "An order id that names nothing", Code.ORDER_NOT_FOUND,
            *(f"GET /store/orders/{order_id}" for order_id in IDS)),
    refused("body_that_is_no_json_is_refused", "D3, D29", "A body that is not JSON", Code.MALFORMED_JSON,
            "POST /pets", body=b'{"name": '),
    refused("other_media_type_is_refused", "D2", "A body of another media type",
            Code.UNSUPPORTED_MEDIA_TYPE, "POST /pets", body=b"conformance", headers=TEXT),
    refused("large_body_is_refused", "D2", "A body of more than 64 KiB", Code.PAYLOAD_TOO_LARGE,
            "POST /pets", body=TOO_LARGE),
    refused("unknown_category_is_refused", "D5", "A pet of a category that is none", Code.UNKNOWN_CATEGORY,
            "POST /pets", body={"name": "Conformance check", "categoryId": -1}, writes=True),
    refused("unknown_pet_is_not_ordered", "D14", "An order of a pet that is none", Code.PET_NOT_FOUND,
            "POST /store/orders", body={"petId": -1}, writes=True),
]  # fmt: skip


@check("D6")
def bad_filters_and_cursors_are_refused(session: Session) -> None:
    """A value that a filter does not take, or a cursor that no list gave, is 400 invalid_parameter."""
    filters = [(one.path, each.name) for one in lists() for each in one.filters]
    for path, name in [*filters, ("/pets", "cursor")]:
        expect_code(session.send("GET", f"{path}?{name}=conformance"), Code.INVALID_PARAMETER)


@check("D29")
def every_missing_field_is_named(session: Session) -> None:
    """A body without its required fields is 400 missing_field, and details name all of them."""
    answer = session.send("POST", "/pets", {})
    expect_details(answer, Code.MISSING_FIELD, schemas()["NewPet"]["required"])


@check("D3", writes=True)
def wrong_types_are_refused(session: Session) -> None:
    """Values of a wrong type are 400 invalid_field, all of them at once."""
    fields = schemas()["NewPet"]["properties"]
    body = {name: "1" if schema.get("type") == "integer" else 7 for name, schema in fields.items()}
    expect_details(session.send("POST", "/pets", body), Code.INVALID_FIELD, body)


def expect_details(response: Response, code: Code, fields: Any) -> None:
    """Raise BrokenError unless a response is this Error, with details of exactly these fields."""
    named = sorted(detail["field"] for detail in expect_code(response, code).get("details", []))
    response.expect(named == sorted(fields), f"details name {named}, not {sorted(fields)}.")


@check("D30")
def long_url_is_refused(session: Session) -> None:
    """A URL that is too long is 414, by the service or by the server before it; never a failure."""
    response = session.send("GET", f"/pets?x={TOO_LONG}")
    response.expect(response.status in {414, 400, 431}, f"answers {response.status}, not 414.")
    if "X-Request-Id" in response.headers:
        expect_code(response, Code.URI_TOO_LONG)
    else:  # A server's own plain answer is allowed.
        session.responses.remove(response)
        session.keyed.remove(response)
