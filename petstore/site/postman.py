"""A Postman collection (format 2.1) with the operations of the OpenAPI document."""

import re
from functools import cache
from typing import Any

import orjson
from django.conf import settings

from petstore.api.openapi.headers import Schema
from petstore.api.openapi.views import document_view, get_document
from petstore.site.reference import get_operations
from petstore.site.samples import get_body

FORMAT = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"


@cache
def render_collection() -> bytes:
    document = get_document()
    collection = {
        "info": {
            "name": document["info"]["title"],
            "description": "Set the variable `key` to your API key.",
            "schema": FORMAT,
        },
        "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{key}}", "type": "string"}]},
        "variable": [{"key": "baseUrl", "value": settings.BASE_URL}, {"key": "key", "value": ""}],
        "item": [
            {
                "name": tag["name"].capitalize(),
                "description": tag["description"],
                "item": [
                    build_item(row) for row in get_operations().values() if row["tags"] == [tag["name"]]
                ],
            }
            for tag in document["tags"]
        ],
    }
    return orjson.dumps(collection, option=orjson.OPT_INDENT_2)


def build_item(operation: Schema) -> dict[str, Any]:
    path = re.sub(r"{(\w+)}", r":\1", operation["path"])
    fields = {
        place: [build_field(field) for field in operation["parameters"] if field["in"] == place]
        for place in ("path", "query", "header")
    }
    request = {
        "method": operation["method"],
        "description": operation["description"],
        "header": fields["header"],
        "url": {
            "raw": "{{baseUrl}}" + path,
            "host": ["{{baseUrl}}"],
            "path": path.strip("/").split("/"),
            "query": fields["query"],
            "variable": fields["path"],
        },
    }
    if body := get_body(operation):
        request["body"] = {"mode": "raw", "raw": body, "options": {"raw": {"language": "json"}}}
    return {"name": operation["summary"], "request": request}


def build_field(parameter: Schema) -> dict[str, Any]:
    """Build a field, which is off if it is optional. Each request gets a new Idempotency-Key."""
    name, value = parameter["name"], parameter.get("example", "")
    value = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    field = {"key": name, "value": value, "description": parameter["description"]}
    if name == "Idempotency-Key":
        return field | {"value": "{{$guid}}"}
    return field if parameter.get("required") else field | {"disabled": True}


collection_json = document_view(render_collection, "application/json")
