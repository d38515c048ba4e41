"""The operations of the OpenAPI document, prepared for the templates of the reference."""

from functools import cache, reduce
from operator import getitem
from typing import Any

from petstore.api.openapi.headers import Schema
from petstore.api.openapi.views import get_document

# The examples in the reference, by operation.
SAMPLES = {
    "listPets": "first_call", "createPet": "create_pet", "createPets": "create_pets",
    "getPet": "deprecation", "listOrders": "orders",
    "placeOrder": "place_order", "getOrder": "get_order", "cancelOrder": "cancel_order",
    "listCategories": "categories", "listEvents": "events", "getAccount": "account",
}  # fmt: skip


@cache
def get_operations() -> dict[str, Schema]:
    """Return all operations by ID, with resolved references. Templates can't read names with hyphens."""
    document = resolve_references(get_document(), get_document())
    return {
        operation["operationId"]: operation
        | {
            "method": method.upper(),
            "path": path,
            "scope": operation.get("x-required-scope"),
            "rate_limit": operation["x-rate-limit"],
        }
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def resolve_references(value: Any, document: Schema, ancestors: tuple[str, ...] = ()) -> Any:
    """Replace references with their targets. A recursive reference becomes the name of its target."""
    if isinstance(value, list):
        return [resolve_references(item, document, ancestors) for item in value]
    if not isinstance(value, dict):
        return value
    if reference := value.get("$ref"):
        names = reference.split("/")[1:]
        if reference in ancestors:
            return {"type": names[-1]}
        return resolve_references(reduce(getitem, names, document), document, (*ancestors, reference))
    return {name: resolve_references(item, document, ancestors) for name, item in value.items()}
