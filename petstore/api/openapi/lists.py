"""The lists that the OpenAPI document has, and their filters: for whatever goes through all of them."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from petstore.api.openapi.views import document

PAGING_PARAMETERS = {"limit", "cursor"}


class ListFilter(NamedTuple):
    """A query parameter that filters a list."""

    name: str
    sentence: str
    words: tuple[str, ...]  # That it takes; none where it takes any int64.


class List(NamedTuple):
    """An operation whose answers are pages."""

    operation_id: str
    path: str  # Under {base_url}.
    filters: tuple[ListFilter, ...]


@cache
def lists() -> tuple[List, ...]:
    """Return all lists, in the document's order; the feed has no end, so it is none."""
    found = [(path, methods["get"]) for path, methods in document()["paths"].items() if "get" in methods]
    return tuple(
        List(one["operationId"], path, tuple(filters(one["parameters"])))
        for path, one in found
        if (names := {each["name"] for each in one["parameters"]}) >= PAGING_PARAMETERS
        and "since" not in names
    )


def filters(parameters: list[dict[str, Any]]) -> Iterator[ListFilter]:
    """Yield the filters among an operation's parameters."""
    schemas = document()["components"]["schemas"]
    for parameter in parameters:
        if parameter["in"] == "query" and parameter["name"] not in PAGING_PARAMETERS:
            words = schemas.get(parameter["schema"].get("$ref", "").rpartition("/")[2], {})
            yield ListFilter(parameter["name"], parameter["description"], tuple(words.get("enum", ())))
