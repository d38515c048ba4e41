"""Hooks that complete the OpenAPI document with errors, headers and links."""

from typing import Any

from django.utils.module_loading import autodiscover_modules

from petstore.api import int64
from petstore.api.errors import DETAIL_CODES, error_body
from petstore.api.errors import ErrorCode as Code
from petstore.api.openapi.headers import HEADERS, Schema, headers
from petstore.api.pagination import cursor_after

PAGE = "Paginated"  # Prefix of drf-spectacular's names for schemas of paged lists.

COMMON_ERRORS = [
    Code.MISSING_API_KEY,
    Code.INVALID_API_KEY,
    Code.EXPIRED_API_KEY,
    Code.ACCOUNT_SUSPENDED,
    Code.INSUFFICIENT_SCOPE,
    Code.HEADERS_TOO_LARGE,
    Code.URI_TOO_LONG,
    Code.RATE_LIMIT_EXCEEDED,
    Code.DAILY_QUOTA_EXCEEDED,
    Code.API_KEY_BANNED,
    Code.INTERNAL_ERROR,
    Code.SERVICE_UNAVAILABLE,
]
# A free operation needs no scope, and no quota or ban rejects it (D39).
NOT_ON_FREE_OPERATIONS = {Code.INSUFFICIENT_SCOPE, Code.DAILY_QUOTA_EXCEEDED, Code.API_KEY_BANNED}
LIST_ERRORS = [Code.INVALID_PARAMETER]
IDEMPOTENCY_ERRORS = [Code.INVALID_PARAMETER, Code.IDEMPOTENCY_KEY_IN_USE, Code.IDEMPOTENCY_KEY_REUSED]
BODY_ERRORS = [
    Code.MALFORMED_JSON,
    Code.MISSING_FIELD,
    Code.INVALID_FIELD,
    Code.REQUEST_TIMEOUT,
    Code.PAYLOAD_TOO_LARGE,
    Code.UNSUPPORTED_MEDIA_TYPE,
]


def text(description: str, **more: Any) -> Schema:
    return {"type": "string", **more, "description": description}


def an_object(description: str, **properties: Schema) -> Schema:
    """Build the schema of an object; only `details` is optional."""
    required = [name for name in properties if name != "details"]
    return {"type": "object", "description": description, "required": required, "properties": properties}


CODE, MESSAGE = "Machine-readable error code.", "Human-readable description."
ERROR = an_object(
    "The body of every response of 400 and above.",
    code=text(CODE, enum=[code.value for code in Code]),
    message=text(MESSAGE),
    status={"type": "integer", "minimum": 400, "maximum": 599, "description": "The HTTP status code."},
    details={
        "type": "array",
        "description": "For a body with invalid fields: all problems in it.",
        "items": {"$ref": "#/components/schemas/ErrorDetail"},
    },
)
ERROR_DETAIL = an_object(
    "One problem in a body.",
    field=text("The member of the body."),
    code=text(CODE, enum=sorted({code.value for code in [Code.INVALID_FIELD, *DETAIL_CODES.values()]})),
    message=text(MESSAGE),
)
# The cost of a request, with any response; the plans' limits are in the document's `info` (D21).
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
        "A unique text that identifies this request. For 24 hours, the same request with the same key gets "
        "the stored response and is not executed again. A rejection is not stored: fix the request and use "
        "the same key. Clear it in tools that generate a value and send it each time."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
# Messages that extend their code's sentence; operations add those of their fields.
EXAMPLES = {Code.MALFORMED_JSON: {"message": "The body is not valid JSON: see line 1, column 10."}}
BAD_LIMIT = {Code.INVALID_PARAMETER: {"message": "`limit` must be a whole number from 1 to 100."}}
BAD_KEY = {
    Code.INVALID_PARAMETER: {"message": "`Idempotency-Key` must have 1 to 255 visible ASCII characters."}
}


def only_v1(endpoints: list[Any]) -> list[Any]:
    """Preprocessing hook: load the apps' descriptions, and drop paths outside /v1."""
    autodiscover_modules("openapi")
    return [endpoint for endpoint in endpoints if endpoint[0].startswith("/v1/")]


def complete(result: Schema, generator: Any, request: Any, public: bool) -> Schema:
    """Postprocessing hook: add what drf-spectacular can't infer."""
    components = result["components"]
    components["headers"] = HEADERS
    schemas = components["schemas"]
    inline_nullable(schemas)
    for path, operations in result["paths"].items():
        for method, operation in operations.items():
            inline_list(operation, schemas)
            complete_operation(path, method, operation)
    schemas = {name: schema for name, schema in schemas.items() if not name.startswith(PAGE)}
    components["schemas"] = schemas | {"Error": ERROR, "ErrorDetail": ERROR_DETAIL}
    return result


def inline_nullable(schemas: Schema) -> None:
    """Inline nullable objects: in OpenAPI 3.0.3, a reference can't be nullable."""
    for schema in list(schemas.values()):
        for member in schema.get("properties", {}).values():
            if "nullable" in member and "allOf" in member:
                (named,) = member.pop("allOf")
                member.update(schemas.pop(named["$ref"].rpartition("/")[2]) | member)


def inline_list(operation: Schema, schemas: Schema) -> None:
    """Inline a list's schema: in the contract it is an array without a name.

    drf-spectacular takes a list's example for a single item and wraps it once more.
    """
    for response in operation["responses"].values():
        for media in response.get("content", {}).values():
            name = media["schema"].get("$ref", "").rpartition("/")[2]
            if name.startswith(PAGE):
                media["schema"] = schemas[name]
                for example in media["examples"].values():
                    (example["value"],) = example["value"]


def idempotency_key(operation_id: str) -> Schema:
    """Build the parameter without an example, which tools would send with each request.

    The schema differs by operation: Postman generates one value for equal schemas, and a key that is shared
    by two operations is rejected (D31).
    """
    schema = IDEMPOTENCY_KEY["schema"] | {"description": f"Names one request of `{operation_id}`."}
    return IDEMPOTENCY_KEY | {"schema": schema}


def complete_operation(path: str, method: str, operation: Schema) -> None:
    parameters = operation.get("parameters", [])
    names = {parameter["name"] for parameter in parameters}
    pages = ("NextEvents" if "since" in names else "NextPage") if "limit" in names else ""
    parameter_examples = operation.pop("x-parameter-examples", {})
    if pages == "NextPage":
        parameter_examples["cursor"] = cursor_after(f"/v1{path}", 1)
    for parameter in parameters:
        if parameter["in"] == "path":
            parameter.update(schema=int64.SCHEMA, example=1)
        elif parameter["name"] in parameter_examples:
            parameter["example"] = parameter_examples[parameter["name"]]
    free = operation.setdefault("x-rate-limit", RATE_LIMIT)["cost"] == 0
    codes = [code for code in COMMON_ERRORS if not (free and code in NOT_ON_FREE_OPERATIONS)]
    codes += operation.pop("x-error-codes", [])
    codes += LIST_ERRORS if pages else []
    codes += BODY_ERRORS if "requestBody" in operation else []
    codes += IDEMPOTENCY_ERRORS if method == "post" else []
    examples = EXAMPLES | (BAD_LIMIT if pages else BAD_KEY) | operation.pop("x-error-examples", {})
    responses = operation["responses"]
    for status in {code.status for code in codes}:
        of_status = [code for code in codes if code.status == status]
        responses[str(status)] = response_object(of_status, examples)
    if method == "get":
        operation["parameters"] = [*parameters, IF_NONE_MATCH]
        responses["304"] = {"description": "The response is still the one that `If-None-Match` names."}
    if method == "post":
        operation["parameters"] = [*parameters, idempotency_key(operation["operationId"])]
    for status, links in operation.pop("x-links", {}).items():
        responses[status]["links"] = links
    for status, response in responses.items():
        response["headers"] = headers(method, status, pages=pages, deprecated="deprecated" in operation)
    operation["responses"] = dict(sorted(responses.items()))


def response_object(codes: list[Code], examples: dict[Code, Schema]) -> Schema:
    described = {
        code.value: {
            "summary": code.sentence.partition(". ")[0].rstrip(".") + ".",
            "value": error_body(code, **examples.get(code, {})),
        }
        for code in codes
    }
    schema = {"$ref": "#/components/schemas/Error"}
    return {
        "description": " ".join(f"`{code.value}`: {code.sentence}" for code in codes),
        "content": {"application/json": {"schema": schema, "examples": described}},
    }
