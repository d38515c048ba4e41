"""The response headers in the OpenAPI document."""

from typing import Any

from petstore.api.int64 import INT64_MAX

Schema = dict[str, Any]

COUNT: Schema = {"type": "integer", "format": "int64", "minimum": 0, "maximum": INT64_MAX}
SCHEMAS: dict[str, Schema] = {  # Of headers that are not free text.
    "X-RateLimit-Limit": COUNT,
    "X-RateLimit-Remaining": COUNT,
    "X-RateLimit-Reset": COUNT,
    "Retry-After": {"type": "integer", "minimum": 1},
    "Location": {"type": "string", "format": "uri"},
    "Idempotent-Replayed": {"type": "string", "enum": ["true"]},
}
OPTIONAL = {"Idempotent-Replayed", "NextPage"}  # The others are always present.

NEXT = '<https://api.example.com/v1/pets?limit=20&cursor=K.wT8b9>; rel="next"'
SUCCESSOR = '<https://api.example.com/v1/pets?status=available>; rel="successor-version"'
HELP = '<https://api.example.com/docs/errors#missing_api_key>; rel="help"'
ABOUT_HELP = 'The URL of the documentation of the error, with `rel="help"`'
ABOUT_SUCCESSOR = 'of its successor, with `rel="successor-version"`.'

# Description and example.
DESCRIPTIONS: dict[str, tuple[str, Any]] = {
    "X-RateLimit-Limit": ("The limit of the window with the fewest remaining requests.", 300),
    "X-RateLimit-Remaining": ("Requests that remain in that window.", 299),
    "X-RateLimit-Reset": ("Unix time, in seconds, at which that window resets.", 1_786_435_260),
    "RateLimit-Policy": (
        "Each window's quota `q` and seconds `w`.",
        '"minute";q=300;w=60, "day";q=10000;w=86400',
    ),
    "RateLimit": (
        "The remaining requests `r` of each window, and seconds to its reset `t`.",
        '"minute";r=299;t=60, "day";r=9740;t=41340',
    ),
    "X-Request-Id": (
        "The id of this request, as in the service's logs.",
        "6a3c4d2e6b0f4f0c9d5a8f1b7e2c3d4a",
    ),
    "Retry-After": ("Seconds to wait before the next try.", 17),
    "WWW-Authenticate": ("The authentication scheme.", "Bearer"),
    "ETag": (
        "The version of this response, its `Link` included, for `If-None-Match`.",
        '"9a0364b9e99bb480dd25e1f0284c8555"',
    ),
    "Location": ("The URL of what was created.", "https://api.example.com/v1/pets/1"),
    "Idempotent-Replayed": (
        "`true` on a stored response, which an `Idempotency-Key` replayed. Absent on the first response.",
        "true",
    ),
    "Deprecation": ("Since when the operation is deprecated: `@<unix time>` (RFC 9745).", "@1764892800"),
    "Sunset": ("When the operation is removed: an HTTP date (RFC 8594).", "Thu, 05 Dec 2030 00:00:00 GMT"),
    # Link, for a page, a deprecated operation, an error, and the latter two.
    "NextPage": ('The URL of the next page, with `rel="next"` (RFC 8288). Absent on the last page.', NEXT),
    "NextEvents": (
        'The URL to poll next, with `rel="next"` (RFC 8288): on every page; a 304 has a new one.',
        NEXT.replace("/pets", "/events"),
    ),
    "Successor": (f"The URL {ABOUT_SUCCESSOR}", SUCCESSOR),
    "Help": (f"{ABOUT_HELP}.", HELP),
    "HelpAndSuccessor": (f"{ABOUT_HELP}, and that {ABOUT_SUCCESSOR}", f"{HELP}, {SUCCESSOR}"),
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


def headers(method: str, status: str, *, pages: str, deprecated: bool) -> Schema:
    """Return references to the headers of a response.

    `pages` names the component of a list's Link header.
    """
    names = {name: name for name in (*ALWAYS, *BY_STATUS.get(status, ()))}
    if method == "post" and status == "201":
        names["Idempotent-Replayed"] = "Idempotent-Replayed"
    if method == "get" and status in {"200", "304"}:
        names["ETag"] = "ETag"
        if pages:
            names["Link"] = pages
    if deprecated:
        names |= {"Deprecation": "Deprecation", "Sunset": "Sunset", "Link": "Successor"}
    if status >= "400":
        names["Link"] = "HelpAndSuccessor" if deprecated else "Help"
    return {name: {"$ref": f"#/components/headers/{component}"} for name, component in names.items()}
