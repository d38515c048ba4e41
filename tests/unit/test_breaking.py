"""No change of the API breaks a client of the released one (D34), and each rule finds what it is for."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from petstore.api.openapi import views
from tests.breaking import breaking_changes
from tests.support.live import ROOT

RELEASED: dict[str, Any] = yaml.safe_load((ROOT / "tests/released.openapi.yaml").read_text())
Change = Callable[[dict[str, Any]], object]


def changed(change: Change) -> dict[str, Any]:
    mutant = copy.deepcopy(RELEASED)
    change(mutant)
    return mutant


def operation(spec: dict[str, Any], path: str, method: str) -> Any:
    return spec["paths"][path][method]


def schema(spec: dict[str, Any], name: str) -> Any:
    return spec["components"]["schemas"][name]


def member(spec: dict[str, Any], of: str, name: str) -> Any:
    return schema(spec, of)["properties"][name]


def parameter(spec: dict[str, Any], path: str, method: str, name: str) -> Any:
    parameters = operation(spec, path, method)["parameters"]
    return next(one for one in parameters if one["name"] == name)


def response(spec: dict[str, Any], path: str, method: str, status: str) -> Any:
    return operation(spec, path, method)["responses"][status]


def media(spec: dict[str, Any], path: str, method: str, status: str) -> Any:
    return response(spec, path, method, status)["content"]


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


def test_released_document_breaks_no_client_of_its_own() -> None:
    assert breaking_changes(RELEASED, RELEASED) == []


NEW_PARAMETER = {"in": "query", "name": "colour", "required": True, "schema": {"type": "string"}}
BREAKING: list[tuple[str, Change]] = [
    ("/categories: the path was removed.", lambda it: it["paths"].pop("/categories")),
    (
        "POST /pets: the operation was removed.",
        lambda it: it["paths"]["/pets"].pop("post"),
    ),
    (
        "GET /pets: its operationId was changed",
        lambda it: operation(it, "/pets", "get").update(operationId="pets"),
    ),
    (
        "GET /pets: the parameter colour (query) is required now.",
        lambda it: operation(it, "/pets", "get")["parameters"].append(NEW_PARAMETER),
    ),
    (
        "GET /pets: the parameter limit (query) is required now.",
        lambda it: parameter(it, "/pets", "get", "limit").update(required=True),
    ),
    (
        "GET /pets: the parameter limit (query) was removed.",
        lambda it: operation(it, "/pets", "get")["parameters"].remove(
            parameter(it, "/pets", "get", "limit")
        ),
    ),
    (
        "GET /pets: the parameter limit (query): maximum was narrowed.",
        lambda it: parameter(it, "/pets", "get", "limit")["schema"].update(maximum=50),
    ),
    (
        "GET /pets: the parameter limit (query): minimum was narrowed.",
        lambda it: parameter(it, "/pets", "get", "limit")["schema"].update(minimum=2),
    ),
    (
        "GET /pets: the parameter limit (query): the default was changed.",
        lambda it: parameter(it, "/pets", "get", "limit")["schema"].update(default=10),
    ),
    (
        "GET /pets: the parameter status (query): the values of the enum were narrowed.",
        lambda it: schema(it, "PetStatus")["enum"].remove("sold"),
    ),
    (
        "POST /pets: the parameter Idempotency-Key (header): pattern was changed or narrowed.",
        lambda it: parameter(it, "/pets", "post", "Idempotency-Key")["schema"].update(pattern="^[a-z]+$"),
    ),
    (
        "POST /pets request: status is required now.",
        lambda it: schema(it, "NewPet")["required"].append("status"),
    ),
    (
        "POST /pets request.categoryId: the type was changed or narrowed.",
        lambda it: member(it, "NewPet", "categoryId").update(type="string"),
    ),
    (
        "POST /pets request.name: maxLength was narrowed.",
        lambda it: member(it, "NewPet", "name").update(maxLength=100),
    ),
    (
        "POST /pets request.categoryId: maximum was narrowed.",
        lambda it: member(it, "NewPet", "categoryId").update(maximum=2**63 - 2),
    ),
    (
        "POST /pets request.categoryId: minimum was narrowed.",
        lambda it: member(it, "NewPet", "categoryId").update(minimum=1),
    ),
    (
        "POST /pets request: status was removed.",
        lambda it: schema(it, "NewPet")["properties"].pop("status"),
    ),
    (
        "POST /pets request: other members are refused now.",
        lambda it: schema(it, "NewPet").update(additionalProperties=False),
    ),
    (
        "POST /pets request: the media type application/json was removed.",
        lambda it: operation(it, "/pets", "post")["requestBody"].update(content={}),
    ),
    (
        "DELETE /store/orders/{orderId}: a body is required now.",
        lambda it: operation(it, "/store/orders/{orderId}", "delete").update(
            requestBody={"required": True, "content": {}}
        ),
    ),
    (
        "POST /pets: the body of the request was removed.",
        lambda it: operation(it, "/pets", "post").pop("requestBody"),
    ),
    (
        "GET /pets: the answer 200 was removed.",
        lambda it: operation(it, "/pets", "get")["responses"].pop("200"),
    ),
    (
        "GET /pets/{petId}: the answer 404 was removed.",
        lambda it: operation(it, "/pets/{petId}", "get")["responses"].pop("404"),
    ),
    (
        "GET /pets 200: the media type application/json was removed.",
        lambda it: response(it, "/pets", "get", "200").update(content={"text/plain": {}}),
    ),
    (
        "GET /pets 200[]: name was removed.",
        lambda it: schema(it, "Pet")["properties"].pop("name"),
    ),
    (
        "POST /pets 201: status may be missing now.",
        lambda it: schema(it, "Pet")["required"].remove("status"),
    ),
    (
        "GET /store/orders/{orderId} 200.status: the values of the enum were widened.",
        lambda it: schema(it, "OrderStatus")["enum"].append("lost"),
    ),
    (
        "GET /pets 200[].status: the values of the enum were widened.",
        lambda it: schema(it, "PetStatus").pop("enum"),
    ),
    (
        "GET /pets/{petId} 200.id: the type was changed or widened.",
        lambda it: member(it, "Pet", "id").update(type="string"),
    ),
    (
        "GET /pets/{petId} 200.id: the type was changed or widened.",
        lambda it: member(it, "Pet", "id").update(type="number"),
    ),
    (
        "GET /pets/{petId} 200.name: the type was changed or widened.",
        lambda it: member(it, "Pet", "name").update(nullable=True),
    ),
    (
        "GET /store/orders/{orderId} 200.quantity: maximum was widened.",
        lambda it: member(it, "Order", "quantity").update(maximum=2),
    ),
    (
        "GET /pets/{petId} 200.name: maxLength was widened.",
        lambda it: member(it, "Pet", "name").pop("maxLength"),
    ),
    (
        "GET /pets/{petId} 200.id: format was changed or widened.",
        lambda it: member(it, "Pet", "id").pop("format"),
    ),
    (
        "POST /store/orders 409: the error code pet_not_available was removed.",
        lambda it: media(it, "/store/orders", "post", "409")["application/json"]["examples"].pop(
            "pet_not_available"
        ),
    ),
    (
        "GET /pets 200: the header ETag was removed.",
        lambda it: response(it, "/pets", "get", "200")["headers"].pop("ETag"),
    ),
    (
        "GET /pets 429: the header Retry-After may be missing now.",
        lambda it: it["components"]["headers"]["Retry-After"].update(required=False),
    ),
    (
        "GET /pets 429: the header Retry-After: the type was changed or widened.",
        lambda it: it["components"]["headers"]["Retry-After"]["schema"].update(type="string"),
    ),
    (
        "GET /pets: security was made stricter",
        lambda it: operation(it, "/pets", "get").update(security=[{"apiKey": [], "mutualTls": []}]),
    ),
    (
        "GET /pets: security was made stricter",
        lambda it: operation(it, "/pets", "get").update(security=[{"apiKey": ["admin"]}]),
    ),
    (
        "The security scheme apiKey was removed or changed.",
        lambda it: it["components"]["securitySchemes"]["apiKey"].update(scheme="basic"),
    ),
    (
        "POST /pets request.name: oneOf was changed.",
        lambda it: member(it, "NewPet", "name").update(oneOf=[{"pattern": "^A"}]),
    ),
]


@pytest.mark.parametrize(("sentence", "change"), BREAKING)
def test_change_that_breaks_is_found(sentence: str, change: Change) -> None:
    found = breaking_changes(RELEASED, changed(change))
    assert [one for one in found if one.startswith(sentence)], found


def test_security_that_appears_is_found() -> None:
    def without_security(it: dict[str, Any]) -> None:
        operation(it, "/pets", "get")["security"] = []

    found = breaking_changes(changed(without_security), RELEASED)
    assert found == ["GET /pets: security was made stricter; nothing no longer suffices."]


COMPATIBLE: list[Change] = [
    lambda it: it["paths"].update({"/shops": it["paths"]["/pets"]}),
    lambda it: it["paths"]["/pets"].update({"put": it["paths"]["/pets"]["post"]}),
    lambda it: operation(it, "/pets", "get")["parameters"].append(NEW_PARAMETER | {"required": False}),
    lambda it: parameter(it, "/pets", "get", "limit")["schema"].update(maximum=500),
    lambda it: schema(it, "NewPet")["properties"].update(colour={"type": "string"}),
    lambda it: schema(it, "NewPet")["required"].remove("categoryId"),
    lambda it: member(it, "NewPet", "name").update(nullable=True),
    lambda it: member(it, "NewPet", "categoryId").update(type="number"),
    lambda it: member(it, "NewPet", "name").pop("pattern"),
    lambda it: member(it, "NewPet", "categoryId").update(minimum=-(2**63), maximum=2**63 - 1),
    lambda it: operation(it, "/pets", "post")["requestBody"].update(required=False),
    lambda it: schema(it, "Pet")["properties"].update(colour={"type": "string"}),
    lambda it: schema(it, "Pet")["required"].append("colour"),
    lambda it: member(it, "Pet", "id").update(minimum=1),
    lambda it: schema(it, "OrderStatus").update(description="Where the order stands."),
    lambda it: response(it, "/pets", "get", "200")["headers"].update(Age={"schema": {"type": "integer"}}),
    lambda it: operation(it, "/pets", "get")["responses"].update({"301": {"description": "Moved."}}),
    lambda it: operation(it, "/pets", "get").update(security=[{"apiKey": []}, {"other": []}]),
    lambda it: operation(it, "/pets", "get").update(security=[]),
    lambda it: it.update(servers=[{"url": "https://elsewhere.example.com/v1"}]),
]


@pytest.mark.parametrize("change", COMPATIBLE)
def test_change_that_only_adds_is_no_finding(change: Change) -> None:
    assert breaking_changes(RELEASED, changed(change)) == []
