"""No change of the API breaks a client of the released one (D34), and each rule finds what it is for."""

import copy
from typing import Any

import pytest
import yaml

from petstore.api.openapi import views
from tests.breaking import breaking_changes
from tests.support.live import ROOT

RELEASED: dict[str, Any] = yaml.safe_load((ROOT / "tests/released.openapi.yaml").read_text())


def changed(where: str, change: Any) -> dict[str, Any]:
    """Change the part at these names: a dict updates, a list extends, a text removes what it names."""
    mutant = copy.deepcopy(RELEASED)
    part: Any = mutant["paths"] if where.startswith("/") else mutant
    if where[:1].isupper():
        part = mutant["components"]["schemas"]
    for name in where.split():
        part = named(part, name) if isinstance(part, list) else part[name]
    if isinstance(change, dict):
        part.update(change)
    elif isinstance(change, list):
        part.extend(change)
    elif isinstance(part, list):
        part.remove(change if change in part else named(part, change))
    else:
        part.pop(change)
    return mutant


def named(parameters: list[Any], name: str) -> Any:
    return next(one for one in parameters if one["name"] == name)


def without_new_codes(spec: dict[str, Any]) -> dict[str, Any]:
    """Leave out error codes that are new: a client that doesn't know a code goes by the status (D42)."""
    spec = copy.deepcopy(spec)
    known, code = (of["components"]["schemas"]["Error"]["properties"]["code"] for of in (RELEASED, spec))
    code["enum"] = [value for value in code["enum"] if value in known["enum"]]
    return spec


def test_document_breaks_no_client_of_the_released_one() -> None:
    found = breaking_changes(RELEASED, without_new_codes(views.document()))
    assert not found, (
        "Inside /v1 only additive changes are made (D34). What breaks clients of the last release, whose "
        "document is tests/released.openapi.yaml:\n" + "\n".join(found)
    )


NEW_PARAMETER = {"in": "query", "name": "colour", "required": True, "schema": {"type": "string"}}
LIMIT = "/pets get parameters limit"
BREAKING: list[tuple[str, str, Any]] = [
    ("/categories: the path was removed.", "paths", "/categories"),
    ("POST /pets: the operation was removed.", "/pets", "post"),
    ("GET /pets: its operationId was changed", "/pets get", {"operationId": "pets"}),
    ("GET /pets: the parameter colour (query) is required now.", "/pets get parameters", [NEW_PARAMETER]),
    ("GET /pets: the parameter limit (query) is required now.", LIMIT, {"required": True}),
    ("GET /pets: the parameter limit (query) was removed.", "/pets get parameters", "limit"),
    ("GET /pets: the parameter limit (query): maximum was narrowed.", f"{LIMIT} schema", {"maximum": 50}),
    ("GET /pets: the parameter limit (query): minimum was narrowed.", f"{LIMIT} schema", {"minimum": 2}),
    ("GET /pets: the parameter limit (query): the default was changed.", f"{LIMIT} schema", {"default": 9}),
    (
        "GET /pets: the parameter status (query): the values of the enum were narrowed.",
        "PetStatus enum",
        "sold",
    ),
    (
        "POST /pets: the parameter Idempotency-Key (header): pattern was changed or narrowed.",
        "/pets post parameters Idempotency-Key schema",
        {"pattern": "^[a-z]+$"},
    ),
    ("POST /pets request: status is required now.", "NewPet required", ["status"]),
    (
        "POST /pets request.categoryId: the type was changed or narrowed.",
        "NewPet properties categoryId",
        {"type": "string"},
    ),
    ("POST /pets request.name: maxLength was narrowed.", "NewPet properties name", {"maxLength": 100}),
    (
        "POST /pets request.categoryId: maximum was narrowed.",
        "NewPet properties categoryId",
        {"maximum": 2**63 - 2},
    ),
    (
        "POST /pets request.categoryId: minimum was narrowed.",
        "NewPet properties categoryId",
        {"minimum": 1},
    ),
    ("POST /pets request: status was removed.", "NewPet properties", "status"),
    ("POST /pets request: other members are refused now.", "NewPet", {"additionalProperties": False}),
    (
        "POST /pets request: the media type application/json was removed.",
        "/pets post requestBody content",
        "application/json",
    ),
    (
        "DELETE /store/orders/{orderId}: a body is required now.",
        "/store/orders/{orderId} delete",
        {"requestBody": {"required": True, "content": {}}},
    ),
    ("POST /pets: the body of the request was removed.", "/pets post", "requestBody"),
    ("GET /pets: the answer 200 was removed.", "/pets get responses", "200"),
    ("GET /pets/{petId}: the answer 404 was removed.", "/pets/{petId} get responses", "404"),
    (
        "GET /pets 200: the media type application/json was removed.",
        "/pets get responses 200 content",
        "application/json",
    ),
    ("GET /pets 200[]: name was removed.", "Pet properties", "name"),
    ("POST /pets 201: status may be missing now.", "Pet required", "status"),
    (
        "GET /store/orders/{orderId} 200.status: the values of the enum were widened.",
        "OrderStatus enum",
        ["lost"],
    ),
    ("GET /pets 200[].status: the values of the enum were widened.", "PetStatus", "enum"),
    *(
        ("GET /pets/{petId} 200.id: the type was changed or widened.", "Pet properties id", {"type": other})
        for other in ("string", "number")
    ),
    (
        "GET /pets/{petId} 200.name: the type was changed or widened.",
        "Pet properties name",
        {"nullable": True},
    ),
    (
        "GET /store/orders/{orderId} 200.quantity: maximum was widened.",
        "Order properties quantity",
        {"maximum": 2},
    ),
    ("GET /pets/{petId} 200.name: maxLength was widened.", "Pet properties name", "maxLength"),
    ("GET /pets/{petId} 200.id: format was changed or widened.", "Pet properties id", "format"),
    (
        "POST /store/orders 409: the error code pet_not_available was removed.",
        "/store/orders post responses 409 content application/json examples",
        "pet_not_available",
    ),
    ("GET /pets 200: the header ETag was removed.", "/pets get responses 200 headers", "ETag"),
    (
        "GET /pets 429: the header Retry-After may be missing now.",
        "components headers Retry-After",
        {"required": False},
    ),
    (
        "GET /pets 429: the header Retry-After: the type was changed or widened.",
        "components headers Retry-After schema",
        {"type": "string"},
    ),
    (
        "GET /pets: security was made stricter",
        "/pets get",
        {"security": [{"apiKey": [], "mutualTls": []}]},
    ),
    ("GET /pets: security was made stricter", "/pets get", {"security": [{"apiKey": ["admin"]}]}),
    (
        "The security scheme apiKey was removed or changed.",
        "components securitySchemes apiKey",
        {"scheme": "basic"},
    ),
    (
        "POST /pets request.name: oneOf was changed.",
        "NewPet properties name",
        {"oneOf": [{"pattern": "^A"}]},
    ),
]


@pytest.mark.parametrize(("sentence", "where", "change"), BREAKING)
def test_change_that_breaks_is_found(sentence: str, where: str, change: Any) -> None:
    found = breaking_changes(RELEASED, changed(where, change))
    assert [one for one in found if one.startswith(sentence)], found


def test_security_that_appears_is_found() -> None:
    found = breaking_changes(changed("/pets get", {"security": []}), RELEASED)
    assert found == ["GET /pets: security was made stricter; nothing no longer suffices."]


COMPATIBLE: list[tuple[str, Any]] = [
    ("", {}),  # No change.
    ("paths", {"/shops": RELEASED["paths"]["/pets"]}),
    ("/pets", {"put": RELEASED["paths"]["/pets"]["post"]}),
    ("/pets get parameters", [NEW_PARAMETER | {"required": False}]),
    (f"{LIMIT} schema", {"maximum": 500}),
    ("NewPet properties", {"colour": {"type": "string"}}),
    ("NewPet required", "categoryId"),
    ("NewPet properties name", {"nullable": True}),
    ("NewPet properties categoryId", {"type": "number"}),
    ("NewPet properties name", "pattern"),
    ("NewPet properties categoryId", {"minimum": -(2**63), "maximum": 2**63 - 1}),
    ("/pets post requestBody", {"required": False}),
    ("Pet properties", {"colour": {"type": "string"}}),
    ("Pet required", ["colour"]),
    ("Pet properties id", {"minimum": 1}),
    ("OrderStatus", {"description": "Where the order stands."}),
    ("/pets get responses 200 headers", {"Age": {"schema": {"type": "integer"}}}),
    ("/pets get responses", {"301": {"description": "Moved."}}),
    ("/pets get", {"security": [{"apiKey": []}, {"other": []}]}),
    ("/pets get", {"security": []}),
    ("", {"servers": [{"url": "https://elsewhere.example.com/v1"}]}),
]


@pytest.mark.parametrize(("where", "change"), COMPATIBLE)
def test_change_that_only_adds_is_no_finding(where: str, change: Any) -> None:
    assert breaking_changes(RELEASED, changed(where, change)) == []
