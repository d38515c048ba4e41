"""Template filters for the schemas of the OpenAPI document, without references."""

import json
import re
from collections.abc import Iterator
from typing import Any

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString

from petstore.api import int64
from petstore.api.openapi.headers import Schema

register = template.Library()

# Keywords that are displayed otherwise, or describe the parts of a schema.
OTHER_KEYWORDS = {
    "type", "format", "nullable", "description", "title", "example", "enum", "items", "properties",
    "required", "additionalProperties", "oneOf", "anyOf", "allOf",
}  # fmt: skip


def get_parts(schema: Schema) -> list[Schema]:
    return [part for keyword in ("oneOf", "anyOf", "allOf") for part in schema.get(keyword, ())]


@register.filter
def type_of(schema: Schema) -> str:
    """Name the type of a value, such as "array of string" or "string (date-time) or null"."""
    name = " or ".join(dict.fromkeys(map(type_of, get_parts(schema)))) or schema.get("type", "any type")
    if "items" in schema:
        name = f"array of {type_of(schema['items'])}"
    if "format" in schema:
        name += f" ({schema['format']})"
    return f"{name} or null" if schema.get("nullable") else name


@register.filter
def constraints_of(schema: Schema) -> list[str]:
    """List the constraints on a value beyond those of its type, with code in backticks."""
    constraints = [
        f"{re.sub('(?=[A-Z])', ' ', keyword).lower()} `{to_json(value)}`"
        for keyword, value in schema.items()
        if keyword not in OTHER_KEYWORDS and (keyword, value) not in int64.SCHEMA.items()
    ]
    if "enum" in schema:
        constraints.append("one of " + ", ".join(f"`{to_json(value)}`" for value in schema["enum"]))
    for part in get_parts(schema):
        constraints += constraints_of(part)
    return constraints + (constraints_of(schema["items"]) if "items" in schema else [])


@register.filter
def fields_of(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema, bool]]:
    """Yield each field's path, such as `quota.day.limit`, its schema, and whether it is required."""
    for part in get_parts(schema):
        yield from fields_of(part, path)
    if "items" in schema:
        yield from fields_of(schema["items"], path and f"{path}[]")
    for name, field in schema.get("properties", {}).items():
        field_path = f"{path}.{name}" if path else name
        yield field_path, field, name in schema.get("required", ())
        yield from fields_of(field, field_path)


@register.filter
def to_json(value: Any) -> str:
    """Format a value as indented JSON. Strings are returned unchanged."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


@register.filter
def with_code(text: str) -> SafeString:
    """Turn the text between backticks into code."""
    return SafeString(re.sub("`([^`]+)`", r"<code>\1</code>", escape(text)))
