"""The response headers in the OpenAPI document."""

from typing import Any

from petstore.api.int64 import INT64_MAX

Schema = dict[str, Any]

COUNT: Schema = {"type": "integer", "format": "int64", "minimum": 0, "maximum": INT64_MAX}
# Headers that are not listed here are strings.
SCHEMAS: dict[str, Schema] = {
    "X-RateLimit-Limit": COUNT,
    "X-RateLimit-Remaining": COUNT,
    "X-RateLimit-Reset": COUNT,
    "Retry-After": {"type": "integer", "minimum": 1},
    "Location": {"type": "string", "format": "uri"},
    "Idempotent-Replayed": {"type": "string", "enum": ["true"]},
}
OPTIONAL = {"Idempotent-Replayed", "NextPage"}  # The others are on every response that declares them.

NEXT = '<https://api.example.com/v1/pets?limit=20&cursor=K.wT8b9>; rel="next"'
SUCCESSOR = '<https://api.example.com/v1/pets?status=available>; rel="successor-version"'
HELP = '<https://api.example.com/docs/errors#missing_api_key>; rel="help"'
HELP_DESCRIPTION = 'The URL of the error\'s documentation, with `rel="help"`'
SUCCESSOR_DESCRIPTION = 'of the operation\'s replacement, with `rel="successor-version"`.'

# Description and example.
DESCRIPTIONS: dict[str, tuple[str, Any]] = {
    "X-RateLimit-Limit": ("The limit of the window with the fewest remaining requests.", 300),
    "X-RateLimit-Remaining": ("The requests that remain in that window.", 299),
    "X-RateLimit-Reset": ("The Unix time, in seconds, at which that window resets.", 1_786_435_260),
    "RateLimit-Policy": (
        "The quota `q` of each window, and its length in seconds `w`.",
        '"minute";q=300;w=60, "day";q=10000;w=86400',
    ),
    "RateLimit": (
        "The remaining requests `r` of each window, and the seconds until it resets `t`.",
        '"minute";r=299;t=60, "day";r=9740;t=41340',
    ),
    "X-Request-Id": (
        "The ID of this request, which the service's logs contain.",
        "6a3c4d2e6b0f4f0c9d5a8f1b7e2c3d4a",
    ),
    "Retry-After": ("The seconds to wait before sending the next request.", 17),
    "WWW-Authenticate": ("The authentication scheme.", "Bearer"),
    "ETag": (
        "The version of this response, including its `Link`. Send it in `If-None-Match`.",
        '"9a0364b9e99bb480dd25e1f0284c8555"',
    ),
    "Location": ("The URL of the created resource.", "https://api.example.com/v1/pets/1"),
    "Idempotent-Replayed": (
        "`true` if this is the stored response to an earlier request with the same `Idempotency-Key`. "
        "Absent from the first response.",
        "true",
    ),
    "Deprecation": ("When the operation became deprecated: `@<Unix time>` (RFC 9745).", "@1764892800"),
    "Sunset": (
        "When the operation will be removed: an HTTP date (RFC 8594).",
        "Thu, 05 Dec 2030 00:00:00 GMT",
    ),
    # Link on pages, for deprecated operations, on errors, and on errors of deprecated operations.
    "NextPage": (
        'The URL of the next page, with `rel="next"` (RFC 8288). Absent from the last page.',
        NEXT,
    ),
    "NextEvents": (
        'The URL of the next page, with `rel="next"` (RFC 8288). On every page; a 304 has a new one.',
        NEXT.replace("/pets", "/events"),
    ),
    "Successor": (f"The URL {SUCCESSOR_DESCRIPTION}", SUCCESSOR),
    "Help": (f"{HELP_DESCRIPTION}.", HELP),
    "HelpAndSuccessor": (f"{HELP_DESCRIPTION}, and that {SUCCESSOR_DESCRIPTION}", f"{HELP}, {SUCCESSOR}"),
}
HEADERS: dict[str, Schema] = {
    name: {
        "description": description,
        "required": name not in OPTIONAL,
        "schema": SCHEMAS.get(name, {"type": "string"}),
        "example": example,
    }
    for name, (description, example) in DESCRIPTIONS.items()
}

COMMON_HEADERS = (
    "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit",
    "X-Request-Id",
)  # fmt: skip
STATUS_HEADERS = {
    "201": "Location",
    "401": "WWW-Authenticate",
    "429": "Retry-After",
    "503": "Retry-After",
}


def build_header_references(method: str, status: str, *, page_link: str, deprecated: bool) -> Schema:
    """Build references to the headers of a response.

    `page_link` names the Link component of a list's pages; it is empty for other operations.
    """
    components = {name: name for name in COMMON_HEADERS}
    if status in STATUS_HEADERS:
        components[STATUS_HEADERS[status]] = STATUS_HEADERS[status]
    if method == "post" and status == "201":
        components["Idempotent-Replayed"] = "Idempotent-Replayed"
    if method == "get" and status in {"200", "304"}:
        components["ETag"] = "ETag"
        if page_link:
            components["Link"] = page_link
    if deprecated:
        components |= {"Deprecation": "Deprecation", "Sunset": "Sunset", "Link": "Successor"}
    if status >= "400":
        components["Link"] = "HelpAndSuccessor" if deprecated else "Help"
    return {name: {"$ref": f"#/components/headers/{component}"} for name, component in components.items()}
