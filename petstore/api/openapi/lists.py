"""The lists of the OpenAPI document, and their filters."""

from functools import cache

from petstore.api.openapi.hooks import fill_path, get_component_name
from petstore.api.openapi.views import get_document


@cache
def get_list_filters() -> dict[str, dict[str, list[str]]]:
    """Map the path of each list, relative to BASE_URL, to its filters, and these to their choices, if any.

    Parameters of a path have their example. The feed is not included, because it has no last page.
    """
    document = get_document()
    lists: dict[str, dict[str, list[str]]] = {}
    for path, methods in document["paths"].items():
        parameters = {item["name"]: item for item in methods.get("get", {}).get("parameters", [])}
        if parameters.keys() >= {"limit", "cursor"} and "since" not in parameters:
            lists[fill_path(path)] = filters = {}
            for name, parameter in parameters.items():
                if parameter["in"] == "query" and name not in {"limit", "cursor"}:
                    schema_name = get_component_name(parameter["schema"])
                    filters[name] = document["components"]["schemas"].get(schema_name, {}).get("enum", [])
    return lists
