"""What drf-spectacular can't infer of the OpenAPI document: each operation's Errors, headers and links."""

from typing import Any

from petstore.errors import DETAIL_CODES, ErrorCode, error_body

Schema = dict[str, Any]

COUNT: Schema = {"type": "integer", "format": "int64", "minimum": 0}
STRING: Schema = {"type": "string"}


def header(schema: Schema, text: str, *, required: bool = True) -> Schema:
    """Return a header object. `required` means: on every response that names it."""
    return {"description": text, "required": required, "schema": schema}


HEADERS: dict[str, Schema] = {
    "X-RateLimit-Limit": header(COUNT, "The limit that applies: of the window with the least remaining."),
    "X-RateLimit-Remaining": header(COUNT, "Requests that remain in that window."),
    "X-RateLimit-Reset": header(COUNT, "Unix time, in seconds, at which that window resets."),
    "RateLimit-Policy": header(
        STRING, 'Each window\'s quota `q` and seconds `w`: `"minute";q=60;w=60, "day";q=1000;w=86400`.'
    ),
    "RateLimit": header(
        STRING, 'What remains `r` of each window, and seconds to its reset `t`: `"minute";r=59;t=60, ...`.'
    ),
    "X-Request-Id": header(STRING, "The id of this request, as in the service's logs."),
    "Retry-After": header({"type": "integer", "minimum": 1}, "Seconds to wait before the next try."),
    "WWW-Authenticate": header(STRING, "The scheme to authenticate with: `Bearer`."),
    "ETag": header(STRING, "The version of this answer, for `If-None-Match`."),
    "Location": header({"type": "string", "format": "uri"}, "The URL of what was created."),
    "Idempotent-Replayed": header(
        {"type": "string", "enum": ["true"]},
        "`true` where an `Idempotency-Key` brought the first answer again. Absent on the first answer.",
        required=False,
    ),
    "Deprecation": header(STRING, "Since when the operation is deprecated: `@<unix time>` (RFC 9745)."),
    "Sunset": header(STRING, "When the operation is removed: an HTTP date (RFC 8594)."),
}
# One header, and two things that it says: of a page, and of a deprecated operation.
NEXT_PAGE = header(
    STRING,
    'The URL of the next page: `<...>; rel="next"` (RFC 8288). Absent on the last page.',
    required=False,
)
SUCCESSOR = header(STRING, 'The URL of what replaces the operation: `<...>; rel="successor-version"`.')

ALWAYS = (
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "RateLimit-Policy",
    "RateLimit",
    "X-Request-Id",
)
BY_STATUS = {
    "201": ("Location",),
    "401": ("WWW-Authenticate",),
    "429": ("Retry-After",),
    "503": ("Retry-After",),
}

EVERYWHERE = [
    ErrorCode.MISSING_API_KEY,
    ErrorCode.INVALID_API_KEY,
    ErrorCode.EXPIRED_API_KEY,
    ErrorCode.INSUFFICIENT_SCOPE,
    ErrorCode.URI_TOO_LONG,
    ErrorCode.RATE_LIMIT_EXCEEDED,
    ErrorCode.DAILY_QUOTA_EXCEEDED,
    ErrorCode.API_KEY_BANNED,
    ErrorCode.INTERNAL_ERROR,
    ErrorCode.SERVICE_UNAVAILABLE,
]
LISTS = [ErrorCode.INVALID_PARAMETER]
RETRIES = [
    ErrorCode.INVALID_PARAMETER,
    ErrorCode.IDEMPOTENCY_KEY_IN_USE,
    ErrorCode.IDEMPOTENCY_KEY_REUSED,
]
BODIES = [
    ErrorCode.MALFORMED_JSON,
    ErrorCode.MISSING_FIELD,
    ErrorCode.INVALID_FIELD,
    ErrorCode.PAYLOAD_TOO_LARGE,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE,
]

ERROR: Schema = {
    "type": "object",
    "description": "The body of every answer of 400 and above.",
    "required": ["code", "message", "status"],
    "properties": {
        "code": {
            "type": "string",
            "enum": [code.value for code in ErrorCode],
            "description": "Machine-readable error code.",
        },
        "message": {"type": "string", "description": "Human-readable description."},
        "status": {
            "type": "integer",
            "minimum": 400,
            "maximum": 599,
            "description": "The HTTP status code.",
        },
        "details": {
            "type": "array",
            "description": "For a body: every problem in it.",
            "items": {"$ref": "#/components/schemas/ErrorDetail"},
        },
    },
}
ERROR_DETAIL: Schema = {
    "type": "object",
    "description": "One problem of a body.",
    "required": ["field", "code", "message"],
    "properties": {
        "field": {"type": "string", "description": "The member of the body."},
        "code": {
            "type": "string",
            "enum": sorted({code.value for code in [ErrorCode.INVALID_FIELD, *DETAIL_CODES.values()]}),
            "description": "Machine-readable error code.",
        },
        "message": {"type": "string", "description": "Human-readable description."},
    },
}
IF_NONE_MATCH: Schema = {
    "in": "header",
    "name": "If-None-Match",
    "description": "The `ETag` of an answer that you have. If it is still current, the answer is 304.",
    "schema": {"type": "string"},
}


IDEMPOTENCY_KEY: Schema = {
    "in": "header",
    "name": "Idempotency-Key",
    "description": (
        "A text of your own that names this request. For 24 hours the same request with the same key gets "
        "the first answer again, and is carried out once. A refusal is not kept: mend the request and use "
        "the same key."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}


def only_v1(endpoints: list[Any]) -> list[Any]:
    """Keep the paths of the API; drf-spectacular's preprocessing hook."""
    return [endpoint for endpoint in endpoints if endpoint[0].startswith("/v1/")]


def complete(result: Schema, generator: Any, request: Any, public: bool) -> Schema:
    """Add to each operation what it can answer beside success; drf-spectacular's postprocessing hook."""
    components = result["components"]
    components["headers"] = HEADERS | {"NextPage": NEXT_PAGE, "Successor": SUCCESSOR}
    schemas = components["schemas"]
    for path in result["paths"].values():
        for method, operation in path.items():
            inline_list(operation, schemas)
            complete_operation(method, operation)
    schemas = {name: schema for name, schema in schemas.items() if not is_list(name)}
    components["schemas"] = schemas | {"Error": ERROR, "ErrorDetail": ERROR_DETAIL}
    return result


def is_list(name: str) -> bool:
    """Tell whether a schema is one that drf-spectacular made of a paged list."""
    return name.startswith("Paginated")


def inline_list(operation: Schema, schemas: Schema) -> None:
    """Write a list's schema where it is used: to the contract it is an array, and has no name."""
    for response in operation["responses"].values():
        for media in response.get("content", {}).values():
            name = media["schema"].get("$ref", "").rpartition("/")[2]
            if is_list(name):
                media["schema"] = schemas[name]


def complete_operation(method: str, operation: Schema) -> None:
    """Add parameters' formats, error responses, headers and links to one operation."""
    parameters = operation.get("parameters", [])
    for parameter in parameters:
        if parameter["in"] == "path":
            parameter["schema"] = {"type": "integer", "format": "int64"}
    paged = any(parameter["name"] == "limit" for parameter in parameters)
    codes = EVERYWHERE + operation.pop("x-error-codes", [])
    codes += LISTS if paged else []
    codes += BODIES if "requestBody" in operation else []
    codes += RETRIES if method == "post" else []
    responses = operation["responses"]
    for status in {code.status for code in codes}:
        responses[str(status)] = error_response([code for code in codes if code.status == status])
    if method == "get":
        operation["parameters"] = [*parameters, IF_NONE_MATCH]
        responses["304"] = {"description": "The answer is still the one that `If-None-Match` names."}
    if method == "post":
        operation["parameters"] = [*parameters, IDEMPOTENCY_KEY]
    for status, links in operation.pop("x-links", {}).items():
        responses[status]["links"] = links
    for status, response in responses.items():
        response["headers"] = headers(method, status, paged=paged, deprecated="deprecated" in operation)
    operation["responses"] = dict(sorted(responses.items()))


def error_response(codes: list[ErrorCode]) -> Schema:
    """Return the response object for the codes of one status."""
    examples = {code.value: {"value": error_body(code)} for code in codes}
    schema = {"$ref": "#/components/schemas/Error"}
    return {
        "description": " ".join(f"`{code.value}`: {code.sentence}" for code in codes),
        "content": {"application/json": {"schema": schema, "examples": examples}},
    }


def headers(method: str, status: str, *, paged: bool, deprecated: bool) -> Schema:
    """Return the headers that a response carries, each as a reference."""
    names = {name: name for name in (*ALWAYS, *BY_STATUS.get(status, ()))}
    if method == "post" and status == "201":
        names["Idempotent-Replayed"] = "Idempotent-Replayed"
    if method == "get" and status in {"200", "304"}:
        names["ETag"] = "ETag"
        if paged:
            names["Link"] = "NextPage"
    if deprecated:
        names |= {"Deprecation": "Deprecation", "Sunset": "Sunset", "Link": "Successor"}
    return {name: {"$ref": f"#/components/headers/{component}"} for name, component in names.items()}
