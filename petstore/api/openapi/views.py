"""The views of the OpenAPI document. A worker builds it before it serves, because that is slow."""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import etag, require_safe
from django.views.decorators.vary import vary_on_headers


@cache
def get_document() -> dict[str, Any]:
    from drf_spectacular.generators import SchemaGenerator

    return dict(SchemaGenerator().get_schema(public=True))  # type: ignore[no-untyped-call]


@cache
def render_json() -> bytes:
    return orjson.dumps(get_document(), option=orjson.OPT_INDENT_2)


@cache
def render_yaml() -> bytes:
    from drf_spectacular.renderers import OpenApiYamlRenderer

    return bytes(OpenApiYamlRenderer().render(get_document()))  # type: ignore[no-untyped-call]


def document_view(render: Callable[[], bytes], media_type: str) -> Callable[[HttpRequest], HttpResponse]:
    """Create the view of a rendering. It may be compressed: it contains no secret (BREACH)."""

    @require_safe
    @gzip_page
    @vary_on_headers("Accept-Encoding")
    @etag(lambda request: f'"{sha256(render()).hexdigest()[:32]}"')
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse(render(), content_type=media_type)

    return view


openapi_json = document_view(render_json, "application/json")
openapi_yaml = document_view(render_yaml, "application/yaml")  # RFC 9512.
