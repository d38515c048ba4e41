"""Hooks that complete the OpenAPI document with errors, headers and links."""

import re
from typing import Any

from django.utils.module_loading import autodiscover_modules

from petstore.api import int64
from petstore.api.errors import DETAIL_CODES, build_error_body
from petstore.api.errors import ErrorCode as Code
from petstore.api.openapi.headers import HEADERS, Schema, build_header_references
from petstore.api.pagination import build_cursor

PAGE_PREFIX = "Paginated"  # drf-spectacular's prefix for the schemas of paginated lists.

COMMON_ERRORS = [
    Code.MISSING_API_KEY, Code.INVALID_API_KEY, Code.EXPIRED_API_KEY, Code.ACCOUNT_SUSPENDED,
    Code.INSUFFICIENT_SCOPE, Code.HEADERS_TOO_LARGE, Code.URI_TOO_LONG, Code.RATE_LIMIT_EXCEEDED,
    Code.DAILY_QUOTA_EXCEEDED, Code.API_KEY_BANNED, Code.INTERNAL_ERROR, Code.SERVICE_UNAVAILABLE,
]  # fmt: skip
# A free operation needs no scope, and no quota or ban rejects it (D39).
ERRORS_OF_COUNTED_OPERATIONS = {Code.INSUFFICIENT_SCOPE, Code.DAILY_QUOTA_EXCEEDED, Code.API_KEY_BANNED}
IDEMPOTENCY_ERRORS = [Code.INVALID_PARAMETER, Code.IDEMPOTENCY_KEY_IN_USE, Code.IDEMPOTENCY_KEY_REUSED]
BODY_ERRORS = [
    Code.MALFORMED_JSON, Code.MISSING_FIELD, Code.INVALID_FIELD, Code.REQUEST_TIMEOUT,
    Code.PAYLOAD_TOO_LARGE, Code.UNSUPPORTED_MEDIA_TYPE,
]  # fmt: skip

DETAIL_CODE_VALUES = sorted({code.value for code in [Code.INVALID_FIELD, *DETAIL_CODES.values()]})
CODE_DESCRIPTION = "Machine-readable error code."
MESSAGE: Schema = {"type": "string", "description": "Human-readable description."}
STATUS: Schema = {"type": "integer", "minimum": 400, "maximum": 599, "description": "The HTTP status code."}
DETAILS: Schema = {
    "type": "array",
    "description": "If the body has invalid fields: every problem found in it.",
    "items": {"$ref": "#/components/schemas/ErrorDetail"},
}
FIELD: Schema = {"type": "string", "description": "The name of the field with the problem."}
INDEX: Schema = {
    "type": "integer",
    "minimum": 0,
    "description": "In a batch, the position of the pet with the problem, from 0.",
}
ERROR: Schema = {
    "type": "object",
    "description": "The body of every response with a status of 400 or above.",
    "required": ["code", "message", "status"],
    "properties": {
        "code": {"type": "string", "enum": [code.value for code in Code], "description": CODE_DESCRIPTION},
        "message": MESSAGE,
        "status": STATUS,
        "details": DETAILS,
    },
}
ERROR_DETAIL: Schema = {
    "type": "object",
    "description": "One problem in a body.",
    "required": ["field", "code", "message"],
    "properties": {
        "field": FIELD,
        "index": INDEX,
        "code": {"type": "string", "enum": DETAIL_CODE_VALUES, "description": CODE_DESCRIPTION},
        "message": MESSAGE,
    },
}
# The cost of a request, and of one that a limit rejects. The document's `info` has the limits (D21).
RATE_LIMIT: Schema = {"cost": 1, "per": "account", "windows": ["minute", "day"], "refused-cost": 0}
IF_NONE_MATCH: Schema = {
    "in": "header",
    "name": "If-None-Match",
    "description": "The `ETag` of an earlier response. If it is still current, the response is 304.",
    "schema": {"type": "string"},
    "example": HEADERS["ETag"]["example"],
}
IDEMPOTENCY_KEY: Schema = {
    "in": "header",
    "name": "Idempotency-Key",
    "description": (
        "A unique string that identifies this request. For 24 hours, repeating the request with the same "
        "key returns the stored response instead of executing the request again. Rejections are not "
        "stored: correct the request and send it with the same key. If your tool fills in a value by "
        "itself and sends it every time, clear it."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
# Example messages, more specific than those of their codes. Operations add those of their fields.
MALFORMED_JSON_EXAMPLE = "The body is not valid JSON: see line 1, column 10."
LIMIT_EXAMPLE = "`limit` must be a whole number from 1 to 100."
IDEMPOTENCY_KEY_EXAMPLE = "`Idempotency-Key` must have 1 to 255 visible ASCII characters."


def select_v1_endpoints(endpoints: list[Any]) -> list[Any]:
    """Preprocessing hook: load the apps' descriptions and drop paths outside /v1."""
    autodiscover_modules("openapi")
    return [endpoint for endpoint in endpoints if endpoint[0].startswith("/v1/")]


def complete_document(result: Schema, generator: Any, request: Any, public: bool) -> Schema:
    """Postprocessing hook: add what drf-spectacular can't infer."""
    components = result["components"]
    components["headers"] = HEADERS
    schemas = components["schemas"]
    inline_nullable_objects(schemas)
    for path, operations in result["paths"].items():
        for method, operation in operations.items():
            inline_list_schemas(operation, schemas)
            complete_operation(path, method, operation)
    schemas = {name: schema for name, schema in schemas.items() if not name.startswith(PAGE_PREFIX)}
    components["schemas"] = schemas | {"Error": ERROR, "ErrorDetail": ERROR_DETAIL}
    return result


def inline_nullable_objects(schemas: Schema) -> None:
    """Replace references to nullable objects: in OpenAPI 3.0.3 a reference can't be nullable."""
    for schema in list(schemas.values()):
        for field in schema.get("properties", {}).values():
            if "nullable" in field and "allOf" in field:
                (reference,) = field.pop("allOf")
                referenced = schemas.pop(get_component_name(reference))
                field.update(referenced | field)


def inline_list_schemas(operation: Schema, schemas: Schema) -> None:
    """Replace references to list schemas: the contract has arrays without a name.

    drf-spectacular takes the example of a list for that of an item and wraps it in a list; unwrap it.
    """
    for response in operation["responses"].values():
        for media_type in response.get("content", {}).values():
            name = get_component_name(media_type["schema"])
            if name.startswith(PAGE_PREFIX):
                media_type["schema"] = schemas[name]
                for example in media_type["examples"].values():
                    (example["value"],) = example["value"]


def get_component_name(schema: Schema) -> str:
    """Return the name of the referenced component, or "" if the schema is not a reference."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


def complete_operation(path: str, method: str, operation: Schema) -> None:
    operation.setdefault("x-rate-limit", RATE_LIMIT)
    link = get_page_link(operation)
    add_error_responses(method, operation, is_list=bool(link))
    complete_parameters(path, method, operation, link)
    responses = operation["responses"]
    if method == "get":
        responses["304"] = {"description": "The `ETag` in `If-None-Match` is still current."}
    for status, links in operation.pop("x-links", {}).items():
        responses[status]["links"] = links
    deprecated = "deprecated" in operation
    for status, response in responses.items():
        response["headers"] = build_header_references(method, status, page_link=link, deprecated=deprecated)
    operation["responses"] = dict(sorted(responses.items()))


def get_page_link(operation: Schema) -> str:
    """Return the name of the Link component of a list's pages, or "" for other operations."""
    names = {parameter["name"] for parameter in operation.get("parameters", [])}
    if "limit" not in names:
        return ""
    return "NextEvents" if "since" in names else "NextPage"


def complete_parameters(path: str, method: str, operation: Schema, link: str) -> None:
    parameters = operation.get("parameters", [])
    examples = operation.pop("x-parameter-examples", {})
    if link == "NextPage":
        examples["cursor"] = build_cursor(f"/v1{fill_path(path)}", 1)
    for parameter in parameters:
        if parameter["in"] == "path":
            parameter.update(schema=int64.SCHEMA, example=1)
        elif parameter["name"] in examples:
            parameter["example"] = examples[parameter["name"]]
    if method == "get":
        operation["parameters"] = [*parameters, IF_NONE_MATCH]
    elif method == "post":
        operation["parameters"] = [*parameters, build_idempotency_key(operation["operationId"])]


def fill_path(path: str) -> str:
    """Replace the parameters of a path with their example."""
    return re.sub(r"{\w+}", "1", path)


def build_idempotency_key(operation_id: str) -> Schema:
    """Build the parameter without an example, because tools would send the example with each request.

    The schema differs by operation: Postman generates one value for equal schemas, and a key that is shared
    by two operations is rejected (D31).
    """
    schema = IDEMPOTENCY_KEY["schema"] | {"description": f"Identifies one `{operation_id}` request."}
    return IDEMPOTENCY_KEY | {"schema": schema}


def add_error_responses(method: str, operation: Schema, *, is_list: bool) -> None:
    codes = list(COMMON_ERRORS)
    if operation["x-rate-limit"]["cost"] == 0:
        codes = [code for code in codes if code not in ERRORS_OF_COUNTED_OPERATIONS]
    codes += operation.pop("x-error-codes", [])
    if is_list:
        codes.append(Code.INVALID_PARAMETER)
    if "requestBody" in operation:
        codes += BODY_ERRORS
    if method == "post":
        codes += IDEMPOTENCY_ERRORS
    examples: dict[Code, Schema] = {
        Code.MALFORMED_JSON: {"message": MALFORMED_JSON_EXAMPLE},
        Code.INVALID_PARAMETER: {"message": LIMIT_EXAMPLE if is_list else IDEMPOTENCY_KEY_EXAMPLE},
    } | operation.pop("x-error-examples", {})
    for status in {code.status for code in codes}:
        matching = [code for code in codes if code.status == status]
        operation["responses"][str(status)] = describe_error_response(matching, examples)


def describe_error_response(codes: list[Code], examples: dict[Code, Schema]) -> Schema:
    examples_by_code = {}
    for code in codes:
        summary = code.message.partition(". ")[0].rstrip(".") + "."
        body = build_error_body(code, **examples.get(code, {}))
        examples_by_code[code.value] = {"summary": summary, "value": body}
    content = {"schema": {"$ref": "#/components/schemas/Error"}, "examples": examples_by_code}
    description = " ".join(f"`{code.value}`: {code.message}" for code in codes)
    return {"description": description, "content": {"application/json": content}}
