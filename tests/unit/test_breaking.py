"""No change of the API breaks clients of the released one (D34), and every rule detects its violation."""

import copy
from typing import Any

import pytest
import yaml

from petstore.api.openapi import views
from tests.breaking import breaking_changes
from tests.support.live import ROOT

RELEASED: dict[str, Any] = yaml.safe_load((ROOT / "tests/released.openapi.yaml").read_text())


def changed(where: str, change: Any) -> dict[str, Any]:
    """Change the part at this path: a dict updates, a list extends, a string removes that name."""
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
    """Remove new error codes: clients treat an unknown code by its status (D42)."""
    spec = copy.deepcopy(spec)
    known, code = (of["components"]["schemas"]["Error"]["properties"]["code"] for of in (RELEASED, spec))
    code["enum"] = [value for value in code["enum"] if value in known["enum"]]
    return spec


def test_document_breaks_no_client_of_the_released_one() -> None:
    found = breaking_changes(RELEASED, without_new_codes(views.get_document()))
    assert not found, (
        "Inside /v1 only additive changes are made (D34). What breaks clients of the last release, whose "
        "document is tests/released.openapi.yaml:\n" + "\n".join(found)
    )


NEW_PARAMETER = {"in": "query", "name": "colour", "required": True, "schema": {"type": "string"}}
LIMIT = "/pets get parameters limit"
NEW_PET = "paths /pets post requestBody content application/json schema"
PETS = "paths /pets get responses 200 content application/json schema items"
CONFLICTS = "/store/orders post responses 409 content application/json examples"
# One of each kind: paths, operations, parameters, requests, responses, codes, headers and security.
BREAKING: list[tuple[str, str, Any]] = [
    ("paths /categories was removed.", "paths", "/categories"),
    ("paths /pets post was removed.", "/pets", "post"),
    ("paths /pets get parameters colour (query) is required.", "/pets get parameters", [NEW_PARAMETER]),
    ("paths /pets get parameters limit (query) schema maximum was", f"{LIMIT} schema", {"maximum": 50}),
    (f"{NEW_PET} required was changed: status.", "NewPet required", ["status"]),
    (f"{NEW_PET} properties name maxLength was changed.", "NewPet properties name", {"maxLength": 100}),
    (f"{NEW_PET} properties categoryId multipleOf was", "NewPet properties categoryId", {"multipleOf": 2}),
    ("paths /pets get responses 200 was removed.", "/pets get responses", "200"),
    (f"{PETS} properties name was removed.", "Pet properties", "name"),
    (f"{PETS} required was changed: name.", "Pet required", "name"),
    (f"{PETS} properties name nullable was added.", "Pet properties name", {"nullable": True}),
    (f"{PETS} properties status enum was removed.", "PetStatus", "enum"),
    (f"{PETS} properties status enum was changed: lost.", "PetStatus enum", ["lost"]),
    ("paths /pets/{petId} get responses 200 content", "Pet properties id", {"type": "string"}),
    (f"paths {CONFLICTS} pet_not_available was", CONFLICTS, "pet_not_available"),
    ("paths /pets get responses 200 headers ETag was removed.", "/pets get responses 200 headers", "ETag"),
    ("paths /pets get security was changed.", "/pets get", {"security": [{"apiKey": ["admin"]}]}),
    ("security apiKey scheme was changed.", "components securitySchemes apiKey", {"scheme": "basic"}),
]


@pytest.mark.parametrize(("sentence", "where", "change"), BREAKING)
def test_breaking_change_is_reported(sentence: str, where: str, change: Any) -> None:
    found = breaking_changes(RELEASED, changed(where, change))
    assert [one for one in found if one.startswith(sentence)], found


COMPATIBLE: list[tuple[str, Any]] = [
    ("", {}),  # No change.
    ("paths", {"/shops": RELEASED["paths"]["/pets"]}),
    ("/pets get parameters", [NEW_PARAMETER | {"required": False}]),
    ("Pet properties", {"colour": {"type": "string"}}),
    ("NewPet properties", {"colour": {"type": "string"}}),
    ("NewPet required", "categoryId"),
    ("Pet required", ["colour"]),
    ("/pets get responses", {"301": {"description": "Moved."}}),
    ("/pets get", {"security": []}),
]


def test_additive_change_is_not_reported() -> None:
    for where, change in COMPATIBLE:
        assert breaking_changes(RELEASED, changed(where, change)) == []
