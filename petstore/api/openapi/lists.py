"""The list operations of the OpenAPI document, and their filters."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from petstore.api.openapi.views import get_document

PAGING_PARAMETERS = {"limit", "cursor"}


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
    operations = []
    for path, methods in get_document()["paths"].items():
        parameters = methods.get("get", {}).get("parameters", [])
        names = {parameter["name"] for parameter in parameters}
        if names >= PAGING_PARAMETERS and "since" not in names:
            filters = tuple(_get_filters(parameters))
            operations.append(ListOperation(methods["get"]["operationId"], path, filters))
    return tuple(operations)


def _get_filters(parameters: list[dict[str, Any]]) -> Iterator[ListFilter]:
    schemas = get_document()["components"]["schemas"]
    for parameter in parameters:
        if parameter["in"] == "query" and parameter["name"] not in PAGING_PARAMETERS:
            schema_name = parameter["schema"].get("$ref", "").rpartition("/")[2]
            choices = schemas.get(schema_name, {}).get("enum", ())
            yield ListFilter(parameter["name"], parameter["description"], tuple(choices))
