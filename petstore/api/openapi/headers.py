"""The headers of the API's answers, as the OpenAPI document's components."""

from typing import Any

Schema = dict[str, Any]

COUNT: Schema = {"type": "integer", "format": "int64", "minimum": 0}
STRING: Schema = {"type": "string"}


def header(schema: Schema, text: str, example: Any, *, required: bool = True) -> Schema:
    """Return a header object. `required` means: on every response that names it."""
    return {"description": text, "required": required, "schema": schema, "example": example}


HEADERS: dict[str, Schema] = {
    "X-RateLimit-Limit": header(
        COUNT, "The limit that applies: of the window with the least remaining.", 300
    ),
    "X-RateLimit-Remaining": header(COUNT, "Requests that remain in that window.", 299),
    "X-RateLimit-Reset": header(
        COUNT, "Unix time, in seconds, at which that window resets.", 1_786_435_260
    ),
    "RateLimit-Policy": header(
        STRING,
        "Each window's quota `q` and seconds `w`.",
        '"minute";q=300;w=60, "day";q=10000;w=86400',
    ),
    "RateLimit": header(
        STRING,
        "What remains `r` of each window, and seconds to its reset `t`.",
        '"minute";r=299;t=60, "day";r=9740;t=41340',
    ),
    "X-Request-Id": header(
        STRING, "The id of this request, as in the service's logs.", "6a3c4d2e6b0f4f0c9d5a8f1b7e2c3d4a"
    ),
    "Retry-After": header({"type": "integer", "minimum": 1}, "Seconds to wait before the next try.", 17),
    "WWW-Authenticate": header(STRING, "The scheme to authenticate with.", "Bearer"),
    "ETag": header(
        STRING, "The version of this answer, for `If-None-Match`.", '"9a0364b9e99bb480dd25e1f0284c8555"'
    ),
    "Location": header(
        {"type": "string", "format": "uri"},
        "The URL of what was created.",
        "https://api.example.com/v1/pets/1",
    ),
    "Idempotent-Replayed": header(
        {"type": "string", "enum": ["true"]},
        "`true` where an `Idempotency-Key` brought the first answer again. Absent on the first answer.",
        "true",
        required=False,
    ),
    "Deprecation": header(
        STRING, "Since when the operation is deprecated: `@<unix time>` (RFC 9745).", "@1764892800"
    ),
    "Sunset": header(
        STRING,
        "When the operation is removed: an HTTP date (RFC 8594).",
        "Thu, 05 Dec 2030 00:00:00 GMT",
    ),
    # One header, and what it says of a page, of a deprecated operation, of an error, of both of these.
    "NextPage": header(
        STRING,
        'The URL of the next page, with `rel="next"` (RFC 8288). Absent on the last page.',
        '<https://api.example.com/v1/pets?limit=20&cursor=K.wT8b9>; rel="next"',
        required=False,
    ),
    "Successor": header(
        STRING,
        'The URL of what replaces the operation, with `rel="successor-version"`.',
        '<https://api.example.com/v1/pets?status=available>; rel="successor-version"',
    ),
    "Help": header(
        STRING,
        'The URL of what the documentation says of the error, with `rel="help"`.',
        '<https://api.example.com/docs/errors#missing_api_key>; rel="help"',
    ),
    "HelpAndSuccessor": header(
        STRING,
        'The URL of what the documentation says of the error, with `rel="help"`, and that of what replaces '
        'the operation, with `rel="successor-version"`.',
        '<https://api.example.com/docs/errors#missing_api_key>; rel="help", '
        '<https://api.example.com/v1/pets?status=available>; rel="successor-version"',
    ),
}

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
    if status >= "400":
        names["Link"] = "HelpAndSuccessor" if deprecated else "Help"
    return {name: {"$ref": f"#/components/headers/{component}"} for name, component in names.items()}
