"""Serves the OpenAPI document, built once per process.

drf-spectacular is imported with the first request for it.
"""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from threading import Lock
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import etag, require_safe
from django.views.decorators.vary import vary_on_headers

BUILDING = Lock()  # drf-spectacular is not thread-safe.


def document() -> dict[str, Any]:
    with BUILDING:
        return built()


@cache
def built() -> dict[str, Any]:
    from drf_spectacular.generators import SchemaGenerator

    return dict(SchemaGenerator().get_schema(public=True))  # type: ignore[no-untyped-call]


@cache
def as_json() -> bytes:
    return orjson.dumps(document(), option=orjson.OPT_INDENT_2)


@cache
def as_yaml() -> bytes:
    from drf_spectacular.renderers import OpenApiYamlRenderer

    return bytes(OpenApiYamlRenderer().render(document()))  # type: ignore[no-untyped-call]


@cache
def etag_of(content: Callable[[], bytes]) -> str:
    return f'"{sha256(content()).hexdigest()[:32]}"'


def published(content: Callable[[], bytes], media_type: str) -> Callable[[HttpRequest], HttpResponse]:
    """Build the view of a document, compressed: it contains no secret (BREACH)."""

    @require_safe
    @gzip_page
    @vary_on_headers("Accept-Encoding")
    @etag(lambda request: etag_of(content))
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse(content(), content_type=media_type)

    return view


openapi_json = published(as_json, "application/json")
openapi_yaml = published(as_yaml, "application/yaml")  # RFC 9512.
