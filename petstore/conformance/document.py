"""Validation of responses against the OpenAPI document."""

import re
from datetime import datetime
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]

from petstore.api.errors import ErrorCode
from petstore.api.openapi.views import get_document
from petstore.conformance.client import Response

# By status: a header, and a word that it must contain (the schemas don't require it).
REQUIRED_HEADERS = {401: ("WWW-Authenticate", "Bearer"), 405: ("Allow", "GET")}
formats = FormatChecker(formats=())


@formats.checks("date-time", raises=ValueError)  # type: ignore[untyped-decorator]
def is_utc_date_time(value: object) -> bool:
    """Check D12. Raises ValueError for text that is not a date and time."""
    return not isinstance(value, str) or (value.endswith("Z") and bool(datetime.fromisoformat(value)))


def convert_to_json_schema(node: Any) -> Any:
    """Convert an OpenAPI 3.0 schema to JSON Schema, which has no `nullable`."""
    if isinstance(node, list):
        return [convert_to_json_schema(part) for part in node]
    if not isinstance(node, dict):
        return node
    schema = {name: convert_to_json_schema(part) for name, part in node.items()}
    return {"anyOf": [schema, {"type": "null"}]} if schema.pop("nullable", False) else schema


@cache
def get_schemas() -> dict[str, Any]:
    return dict(convert_to_json_schema(get_document()["components"]["schemas"]))


def expect_valid(response: Response, name: str, value: Any, schema: dict[str, Any]) -> None:
    root = convert_to_json_schema(schema) | {"components": {"schemas": get_schemas()}}
    error = next(Draft202012Validator(root, format_checker=formats).iter_errors(value), None)
    reason = f"{error.json_path}: {error.message}"[:300] if error else ""
    response.expect(error is None, f"{name} does not match its schema. {reason}")


def find_operation(response: Response) -> dict[str, Any]:
    """Find the documented operation of a response, or return {}. HEAD counts as GET."""
    method, _, target = response.request.partition(" ")
    for path, methods in get_document()["paths"].items():
        if re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), target.partition("?")[0]):
            return dict(methods.get(method.replace("HEAD", "GET").lower(), {}))
    return {}


def expect_documented(response: Response, operation: dict[str, Any]) -> None:
    """Raise ViolationError unless status, headers and body are as documented."""
    operation_id = operation["operationId"]
    documented = operation["responses"].get(str(response.status))
    response.expect(documented, f"the status {response.status} is not documented for {operation_id}.")
    for header, reference in documented.get("headers", {}).items():
        declared = get_document()["components"]["headers"][reference["$ref"].rpartition("/")[2]]
        if declared["required"] or header in response.headers:
            schema = declared["schema"]
            value: str | int = response.header(header)
            if schema["type"] == "integer" and re.fullmatch("[0-9]+", str(value)):
                value = int(value)
            expect_valid(response, header, value, schema)
    if "content" not in documented:
        response.expect(not response.body, f"{response.status} must not have a body.")
    elif not response.request.startswith("HEAD "):
        expect_valid(
            response, "the body", response.json(), documented["content"]["application/json"]["schema"]
        )


def expect_error(response: Response, code: ErrorCode | None = None) -> Any:
    """Return the body of an Error (D29). Raises ViolationError if it is none or has another code."""
    if code:
        response.expect_status(code.status, f"expected {code.value}: ")
    body = response.json()
    expect_valid(response, "the Error", body, {"$ref": "#/components/schemas/Error"})
    actual_code = ErrorCode[body["code"].upper()]
    if code:
        response.expect_equal("the code", actual_code.value, code.value)
    response.expect_equal("the body's status", body["status"], response.status)
    response.expect_equal(f"the status of {actual_code.value}", response.status, actual_code.status)
    if response.status in REQUIRED_HEADERS:
        header, word = REQUIRED_HEADERS[response.status]
        value = response.header(header)
        response.expect(word in value, f"{header} is {value!r}, without {word}.")
    return body
