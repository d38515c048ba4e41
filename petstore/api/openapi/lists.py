"""The list operations of the OpenAPI document, and their filters."""

from functools import cache
from typing import NamedTuple

from petstore.api.openapi.hooks import get_component_name
from petstore.api.openapi.views import get_document


class ListFilter(NamedTuple):
    name: str
    description: str
    choices: tuple[str, ...]  # Accepted values; empty for any int64.


class ListOperation(NamedTuple):
    operation_id: str
    path: str  # Under {base_url}.
    filters: tuple[ListFilter, ...]


@cache
def get_list_operations() -> tuple[ListOperation, ...]:
    """Return all lists in the document's order, except the feed, which has no last page."""
    document, operations = get_document(), []
    for path, methods in document["paths"].items():
        parameters = {item["name"]: item for item in methods.get("get", {}).get("parameters", [])}
        if parameters.keys() >= {"limit", "cursor"} and "since" not in parameters:
            filters = []
            for name, parameter in parameters.items():
                if parameter["in"] == "query" and name not in {"limit", "cursor"}:
                    schema_name = get_component_name(parameter["schema"])
                    choices = document["components"]["schemas"].get(schema_name, {}).get("enum", ())
                    filters.append(ListFilter(name, parameter["description"], tuple(choices)))
            operations.append(ListOperation(methods["get"]["operationId"], path, tuple(filters)))
    return tuple(operations)
