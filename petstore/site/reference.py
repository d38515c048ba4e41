"""The operations of the OpenAPI document, prepared for the templates of the reference."""

from functools import cache
from itertools import chain
from typing import Any

from petstore.api.openapi.headers import Schema
from petstore.api.openapi.views import get_document

# The example that the reference shows for each operation.
SAMPLES = {
    "listPets": "first_call",
    "createPet": "create_pet",
    "getPet": "deprecation",
    "listOrders": "orders",
    "placeOrder": "place_order",
    "getOrder": "get_order",
    "cancelOrder": "cancel_order",
    "listCategories": "categories",
    "listEvents": "events",
    "getAccount": "account",
}
LOCATIONS = ["path", "query", "header"]


@cache
def get_operations() -> dict[str, Schema]:
    """Return all operations by ID, without references, in the order of the document's tags."""
    document = resolve_references(get_document(), get_document())
    tags = [tag["name"] for tag in document["tags"]]
    operations = [
        operation
        | {
            "id": operation["operationId"],
            "method": method.upper(),
            "path": path,
            "tag": operation["tags"][0],
            "scope": operation.get("x-required-scope"),
            "rate_limit": operation["x-rate-limit"],
            "parameters": sorted(
                operation.get("parameters", []), key=lambda parameter: LOCATIONS.index(parameter["in"])
            ),
            "sample": SAMPLES.get(operation["operationId"]),
        }
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    operations.sort(key=lambda operation: tags.index(operation["tag"]))
    return {operation["id"]: operation for operation in operations}


@cache
def get_common_headers() -> Schema:
    """Return the headers that every response of every operation has."""
    responses = list(chain(*(operation["responses"].values() for operation in get_operations().values())))
    return {
        name: header
        for name, header in responses[0]["headers"].items()
        if all(name in response["headers"] for response in responses)
    }


def resolve_references(value: Any, document: Schema, ancestors: tuple[str, ...] = ()) -> Any:
    """Replace references with their targets and merge `allOf`. A recursive reference becomes its name."""
    if isinstance(value, list):
        return [resolve_references(item, document, ancestors) for item in value]
    if not isinstance(value, dict):
        return value
    if reference := value.get("$ref"):
        names = reference.removeprefix("#/").split("/")
        if reference in ancestors:
            return {"type": names[-1]}
        target: Any = document
        for name in names:
            target = target[name]
        return resolve_references(target, document, (*ancestors, reference))
    resolved = {name: resolve_references(item, document, ancestors) for name, item in value.items()}
    for part in resolved.pop("allOf", ()):
        if properties := part.get("properties", {}) | resolved.get("properties", {}):
            required = [*part.get("required", ()), *resolved.get("required", ())]
            resolved |= {"properties": properties, "required": required}
        resolved = part | resolved
    return resolved
