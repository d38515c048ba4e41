"""Valid values that the OpenAPI document can't name: existing categories, pets, orders and cursors.

Schemathesis loads this module. Each hook replaces a valid value by one that also exists; an invalid value
stays, so that no rejection is hidden.
"""

import hashlib
import json
import os
import re
from datetime import UTC, datetime
from typing import Any, TypeGuard
from urllib.parse import parse_qs, urlsplit

import httpx
import schemathesis
from schemathesis.generation.meta import TestPhase

DECLARED = {"name", "categoryId", "status", "petId", "pets"}
IDEMPOTENCY_KEY = re.compile(r"[!-~]{1,255}")
LISTS = (("/pets", "listPets"), ("/store/orders", "listOrders"), ("/events", "listEvents"))
DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
CURSOR = re.compile(r"[0-9A-Za-z]+\.[\w-]{20,}")


class Shop:
    """The existing rows, read through the API."""

    def __init__(self, url: str, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        self.cursors: dict[str, list[str]] = {
            path: [] for path in ("/pets", "/categories", "/store/orders", "/events")
        }
        with httpx.Client(base_url=url, headers=headers) as client:
            self.categories = [category["id"] for category in client.get("/categories").json()]
            self.pets = [pet["id"] for pet in client.get("/pets?limit=100").json()]
            self.orders = [order["id"] for order in client.get("/store/orders?limit=100").json()]
            self.ids = {"categoryId": self.categories, "petId": self.pets, "orderId": self.orders}
            for path, cursors in self.cursors.items():
                for limit in (1, 3, 5):
                    link = client.get(path, params={"limit": limit}).links["next"]["url"]
                    cursors.extend(parse_qs(urlsplit(link).query)["cursor"])


shop = Shop(os.environ["SCHEMATHESIS_URL"], os.environ["SCHEMATHESIS_KEY"])


def is_int64(value: Any) -> TypeGuard[float]:
    """Whether a value is an integer to JSON Schema and fits into int64."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -(2**63) <= value < 2**63 and value == int(value)


@schemathesis.hook
def map_case(context: schemathesis.HookContext, case: Any) -> Any:
    """Replace valid values by existing ones."""
    linked = case.meta.phase.name == TestPhase.STATEFUL  # Its ids come from responses.
    if isinstance(case.body, dict):
        case.body = with_existing_rows(case.body, linked=linked)
    cursor = (case.query or {}).get("cursor")
    if isinstance(cursor, str) and cursor and not CURSOR.fullmatch(cursor):  # Not from a link.
        if case.path in shop.cursors:
            case.query = case.query | {"cursor": choose(shop.cursors[case.path], len(cursor))}
        else:  # Below a path parameter, a cursor is valid for one object.
            del case.query["cursor"]
    if DATE_TIME.fullmatch(str((case.query or {}).get("since"))):
        case.query = case.query | {
            "since": f"{datetime.now(UTC):%Y-%m-%dT%H}:00:00Z"
        }  # Within the retention, so no 410.
        if "cursor" in case.query:  # Valid only in a first call, which OpenAPI can't express.
            del case.query["since"]
    if not linked:
        case.path_parameters = case.path_parameters and with_existing_ids(case.path_parameters)
        case.query = case.query and with_existing_ids(case.query)
        set_unique_idempotency_key(case)
    return case


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: Any, kwargs: dict[str, Any]) -> None:
    """Set the key of a stateful request after a link has filled in its body; map_case is too early."""
    if case.meta.phase.name == TestPhase.STATEFUL:
        set_unique_idempotency_key(case)


def set_unique_idempotency_key(case: Any) -> None:
    """Replace a well-formed Idempotency-Key by a unique one."""
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and IDEMPOTENCY_KEY.fullmatch(key):
        # A key per request: the same request is replayed, and another is no reuse (422).
        request = f"{key} {case.method} {case.formatted_path} {case.body!r}"
        case.headers["Idempotency-Key"] = hashlib.sha256(request.encode(errors="replace")).hexdigest()


def with_existing_ids(parameters: dict[str, Any]) -> dict[str, Any]:
    """Replace some ids by existing ones."""
    chosen = {
        name: choose(shop.ids[name], parameters[name])
        for name in shop.ids.keys() & parameters.keys()
        if should_exist(parameters[name])
    }
    return parameters | chosen


def should_exist(value: Any) -> TypeGuard[float]:
    """Whether to replace an id by an existing one: every second one, since the others should get 404."""
    return is_int64(value) and value % 2 == 0


def with_existing_rows(body: dict[str, Any], *, linked: bool) -> dict[str, Any]:
    """The body with an existing category and pet, and without NUL in members that the service ignores.

    A NUL is rejected in any member; JSON Schema can express that only for declared ones.
    """
    result = {
        name: value
        for name, value in body.items()
        if name in DECLARED or r"\u0000" not in json.dumps({name: value})
    }
    if is_int64(value := result.get("categoryId")):
        result["categoryId"] = type(value)(choose(shop.categories, value))  # 7.0 stays a float.
    if not linked and should_exist(value := result.get("petId")):
        result["petId"] = type(value)(choose(shop.pets, value))  # The second buyer gets 409.
    if isinstance(pets := result.get("pets"), list):
        result["pets"] = [
            with_existing_rows(pet, linked=linked) if isinstance(pet, dict) else pet for pet in pets
        ]
    return result


def choose(values: list[Any], number: float) -> Any:
    """Choose one, the same for the same number, so that a failure is reproducible."""
    return values[int(number) % len(values)]


@schemathesis.hook
def before_load_schema(context: schemathesis.HookContext, raw_schema: dict[str, Any]) -> None:
    """Let stateful tests follow the pages, and fetch each pet and order that they created."""
    paths = raw_schema["paths"]
    # OpenAPI can't express that a link is inside a header.
    cursor = "$response.header.Link#regex:[?&]cursor=([^&>]+)"
    for path, name in LISTS:
        next_page = {"operationId": name, "parameters": {"cursor": cursor}}
        paths[path]["get"]["responses"]["200"]["links"] = {"next": next_page}
    # Schemathesis supports expressions in a body; OpenAPI 3.0 doesn't: see inventory/openapi.py.
    link = paths["/pets"]["post"]["responses"]["201"]["links"]["placeOrder"]
    link["requestBody"] = link["x-request-body"]
    # `ensure_resource_availability` checks only links that give every parameter.
    for path, link in (("/pets", "getPet"), ("/store/orders", "getOrder")):
        links = paths[path]["post"]["responses"]["201"]["links"]
        links[link]["parameters"]["header.If-None-Match"] = '"none"'
