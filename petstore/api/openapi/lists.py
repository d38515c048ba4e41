"""The lists in the OpenAPI document and their filters."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from petstore.api.openapi.views import document

PAGING_PARAMETERS = {"limit", "cursor"}


class ListFilter(NamedTuple):
    name: str
    sentence: str
    words: tuple[str, ...]  # Accepted values; empty for any int64.


class List(NamedTuple):
    operation_id: str
    path: str  # Under {base_url}.
    filters: tuple[ListFilter, ...]


@cache
def lists() -> tuple[List, ...]:
    """Return all lists in the document's order, without the feed, which has no last page."""
    found = [(path, methods["get"]) for path, methods in document()["paths"].items() if "get" in methods]
    return tuple(
        List(one["operationId"], path, tuple(filters(one["parameters"])))
        for path, one in found
        if (names := {each["name"] for each in one["parameters"]}) >= PAGING_PARAMETERS
        and "since" not in names
    )


def filters(parameters: list[dict[str, Any]]) -> Iterator[ListFilter]:
    schemas = document()["components"]["schemas"]
    for parameter in parameters:
        if parameter["in"] == "query" and parameter["name"] not in PAGING_PARAMETERS:
            words = schemas.get(parameter["schema"].get("$ref", "").rpartition("/")[2], {})
            yield ListFilter(parameter["name"], parameter["description"], tuple(words.get("enum", ())))
