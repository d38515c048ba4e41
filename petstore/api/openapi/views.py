"""The OpenAPI document as it is served: built once in each process, for it never changes while one runs.

drf-spectacular is imported when the document is first asked for: the service starts without it.
"""

from functools import cache
from threading import Lock
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

BUILDING = Lock()  # drf-spectacular fails where two threads build a document at the same time.


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


@require_safe
def openapi_json(request: HttpRequest) -> HttpResponse:
    return HttpResponse(as_json(), content_type="application/json")


@require_safe
def openapi_yaml(request: HttpRequest) -> HttpResponse:
    """Serve the document as YAML (RFC 9512)."""
    return HttpResponse(as_yaml(), content_type="application/yaml")
