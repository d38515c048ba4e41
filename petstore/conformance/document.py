"""Whether a response is one that the OpenAPI document allows."""

import re
from datetime import datetime
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]

from petstore.api.errors import ErrorCode
from petstore.api.openapi.views import document
from petstore.conformance.client import Response

# What a header of an Error must contain, by status: the document's schemas leave that open.
HEADERS = {401: ("WWW-Authenticate", "Bearer"), 405: ("Allow", "GET")}
formats = FormatChecker(formats=())


@formats.checks("date-time", raises=ValueError)  # type: ignore[untyped-decorator]
def is_utc_date_time(value: object) -> bool:
    """Tell whether a string is an RFC 3339 time in UTC (D12)."""
    return not isinstance(value, str) or (value.endswith("Z") and bool(datetime.fromisoformat(value)))


def as_json_schema(node: Any) -> Any:
    """Return OpenAPI 3.0's dialect as JSON Schema: its `nullable` is one of two there."""
    if isinstance(node, list):
        return [as_json_schema(part) for part in node]
    if not isinstance(node, dict):
        return node
    schema = {name: as_json_schema(part) for name, part in node.items()}
    return {"anyOf": [schema, {"type": "null"}]} if schema.pop("nullable", False) else schema


@cache
def schemas() -> dict[str, Any]:
    return dict(as_json_schema(document()["components"]["schemas"]))


def new_pet() -> dict[str, dict[str, Any]]:
    """Return the schema of each member of NewPet."""
    return dict(schemas()["NewPet"]["properties"])


def expect_valid(response: Response, what: str, value: Any, schema: dict[str, Any]) -> None:
    """Raise BrokenError for a value that the schema doesn't allow."""
    root = as_json_schema(schema) | {"components": {"schemas": schemas()}}
    error = next(Draft202012Validator(root, format_checker=formats).iter_errors(value), None)
    said = f"{error.json_path}: {error.message}"[:300] if error else ""
    response.expect(error is None, f"{what} is not as documented. {said}")


def operation_of(response: Response) -> dict[str, Any]:
    """Return the operation that was requested, empty for none; HEAD is GET's."""
    method, _, target = response.request.partition(" ")
    for path, methods in document()["paths"].items():
        if re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), target.partition("?")[0]):
            return dict(methods.get(method.replace("HEAD", "GET").lower(), {}))
    return {}


def expect_documented(response: Response, operation: dict[str, Any]) -> None:
    """Raise BrokenError for a status, header or body that the document doesn't give to the operation."""
    name, documented = operation["operationId"], operation["responses"].get(str(response.status))
    response.expect(documented, f"{name} doesn't answer {response.status}.")
    for header, reference in documented.get("headers", {}).items():
        declared = document()["components"]["headers"][reference["$ref"].rpartition("/")[2]]
        if declared["required"] or header in response.headers:
            value, schema = response.header(header), declared["schema"]
            number = schema["type"] == "integer" and re.fullmatch("[0-9]+", value)
            expect_valid(response, header, int(value) if number else value, schema)
    if "content" not in documented:
        response.expect(not response.body, f"{response.status} has a body, and must have none.")
    elif not response.request.startswith("HEAD "):
        schema = documented["content"]["application/json"]["schema"]
        expect_valid(response, "the body", response.json(), schema)


def expect_error(response: Response, code: ErrorCode | None = None) -> Any:
    """Return the body. Raises BrokenError unless it is this Error, or any of its status (D29)."""
    if code:
        response.expect_status(code.status, f"{code.value} is due: ")
    body = response.json()
    expect_valid(response, "the Error", body, {"$ref": "#/components/schemas/Error"})
    found = ErrorCode[body["code"].upper()]
    response.expect_equal("the code", found.value, (code or found).value)
    response.expect_equal("the body's status", body["status"], response.status)
    response.expect_equal(f"the status of {found.value}", response.status, found.status)
    if response.status in HEADERS:
        header, wanted = HEADERS[response.status]
        value = response.header(header)
        response.expect(wanted in value, f"{header} is {value!r}, and {wanted} is missing.")
    return body
