"""The headers of every response under /v1."""

import logging
from collections.abc import Mapping
from hashlib import md5
from typing import Any

from django.http import HttpRequest
from rest_framework.settings import api_settings

from petstore.api.context import RequestContext
from petstore.api.responses import Response

logger = logging.getLogger(__name__)

EMPTY_PAGE = b"[]"


def add_headers(request: HttpRequest, response: Response) -> None:
    context, headers = RequestContext.get(request), response.headers
    headers["X-Request-Id"] = context.id
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Vary"] = "Authorization"
    if context.operation.deprecation is not None:
        context.operation.deprecation.add_headers(response)
    headers.update(get_quota_headers(request))
    if response.status_code == 200 and request.method in {"GET", "HEAD"}:
        make_conditional(request, response)
    else:
        headers["Cache-Control"] = "no-store"
    if response.status_code not in {204, 304}:
        headers["Content-Length"] = str(len(response.content))  # Avoids chunked encoding.


def get_quota_headers(request: HttpRequest) -> Mapping[str, str]:
    """Return the quota headers, or on failure those of an unused quota."""
    throttle_class: Any = api_settings.DEFAULT_THROTTLE_CLASSES[0]
    try:
        quota_headers: Mapping[str, str] = throttle_class.get_headers(request)
    except Exception:
        logger.exception("Building the quota headers failed; the response reports an unused quota.")
        quota_headers = throttle_class.get_unused_headers()
    return quota_headers


def make_conditional(request: HttpRequest, response: Response) -> None:
    """Set the ETag, and respond to a matching If-None-Match with 304 (D32, RFC 9110 section 13.1.2)."""
    digest = md5(response.content, usedforsecurity=False)
    if response.content != EMPTY_PAGE:  # A 304 may update the link of an empty page of the feed (D40).
        digest.update(response.headers.get("Link", "").encode())
    etag = response.headers["ETag"] = f'"{digest.hexdigest()}"'
    response.headers["Cache-Control"] = "private, no-cache"  # Store, but revalidate.
    if_none_match = request.META.get("HTTP_IF_NONE_MATCH", "")
    # The quotes are part of the tag, so the list need not be parsed.
    if etag in if_none_match or if_none_match.strip() == "*":
        response.status_code = 304
        response.content = b""
        del response.headers["Content-Type"]
