"""Whether an answer is one that the OpenAPI document allows."""

import re
from datetime import datetime
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]

from petstore.api.errors import ErrorCode
from petstore.api.int64 import is_int64
from petstore.api.openapi.views import document
from petstore.conformance.answers import Answer

WINDOW = re.compile(r'"(\w+)";r=(\d+);t=(\d+)')  # In RateLimit (D28).

formats = FormatChecker(formats=())


@formats.checks("int64")  # type: ignore[untyped-decorator]
def fits_int64(value: object) -> bool:
    """Tell whether a number fits into int64; what is no number has no such format."""
    return not isinstance(value, int) or is_int64(value)


@formats.checks("date-time")  # type: ignore[untyped-decorator]
def is_utc_date_time(value: object) -> bool:
    """Tell whether a string is an RFC 3339 time in UTC (D12)."""
    if not isinstance(value, str):
        return True
    try:
        return datetime.fromisoformat(value).utcoffset() is not None and value.endswith("Z")
    except ValueError:
        return False


def as_json_schema(node: Any) -> Any:
    """Return OpenAPI 3.0's dialect as JSON Schema: its `nullable` is one of two there."""
    if isinstance(node, list):
        return [as_json_schema(part) for part in node]
    if not isinstance(node, dict):
        return node
    schema = {name: as_json_schema(part) for name, part in node.items()}
    if schema.pop("nullable", False):
        return {"anyOf": [schema, {"type": "null"}]}
    return schema


@cache
def operations() -> dict[str, dict[str, Any]]:
    return {
        operation["operationId"]: operation
        for path in document()["paths"].values()
        for operation in path.values()
    }


@cache
def schemas() -> dict[str, Any]:
    return dict(as_json_schema(document()["components"]["schemas"]))


def problem(schema: dict[str, Any], value: Any) -> str:
    """Return what is wrong with a value, or nothing."""
    root = as_json_schema(schema) | {"components": {"schemas": schemas()}}
    error = next(Draft202012Validator(root, format_checker=formats).iter_errors(value), None)
    return f"{error.json_path}: {error.message}" if error is not None else ""


def check_answer(operation_id: str, answer: Answer) -> Answer:
    """Return the answer. Raises BrokenError for a status, header or body that the document doesn't have."""
    responses = operations()[operation_id]["responses"]
    answer.expect(str(answer.status) in responses, f"{operation_id} doesn't answer {answer.status}.")
    response = responses[str(answer.status)]
    components = document()["components"]["headers"]
    for name, reference in response.get("headers", {}).items():
        if components[reference["$ref"].rpartition("/")[2]].get("required", False):
            answer.header(name)
    if "content" not in response:
        answer.expect(not answer.body, f"{answer.status} has a body, and must have none.")
    elif not answer.sent.startswith("HEAD "):
        found = problem(response["content"]["application/json"]["schema"], answer.json())
        answer.expect(not found, f"the body is not as documented. {found[:300]}")
    return answer


def check_is_error(answer: Answer) -> Any:
    """Return the body. Raises BrokenError unless it is an Error with the answer's own status (D29)."""
    body = answer.json()
    found = problem({"$ref": "#/components/schemas/Error"}, body)
    answer.expect(not found, f"the body is no Error. {found[:300]}")
    status = body["status"]
    answer.expect(status == answer.status, f"the body's status is {status}, not {answer.status}.")
    return body


def check_error(answer: Answer, code: ErrorCode) -> Answer:
    """Return the answer. Raises BrokenError unless it is this Error (D29)."""
    answer.expect(answer.status == code.status, f"answers {answer.status}, not {code.status} {code.value}.")
    came = check_is_error(answer)["code"]
    answer.expect(came == code.value, f"the code is {came!r}, not {code.value!r}.")
    return answer
