"""The documentation: guides, and the reference in which every operation can be tried."""

import json
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from petstore.api.openapi.lists import lists
from petstore.web.changelog import releases
from petstore.web.error_help import ADVICE

GUIDES = {
    "authentication": "Authentication",
    "rate-limits": "Rate limits",
    "errors": "Errors",
    "pagination": "Pagination",
    "retries": "Retries",
    "deprecation": "Deprecation",
    "changes": "Versions and changes",
}


def context(page: str) -> dict[str, Any]:
    """Return what every page of the documentation shows. The reference is the page without a name."""
    return {
        "guides": [(reverse(f"docs-{name}"), title, name == page) for name, title in GUIDES.items()],
        "title": GUIDES.get(page, "Reference"),
        "base_url": settings.BASE_URL,
        "staging_base_url": settings.STAGING_BASE_URL,
        "environment": settings.ENVIRONMENT,
        "key_prefix": "psk_test_" if settings.ENVIRONMENT == "staging" else "psk_live_",
        "anonymous_per_minute": settings.ANONYMOUS_PER_MINUTE,
        "get_pet_deprecated_at": settings.GET_PET_DEPRECATED_AT,
        "get_pet_removed_at": settings.GET_PET_REMOVED_AT,
    }


@require_safe
def guide(request: HttpRequest, page: str) -> HttpResponse:
    own: dict[str, Any] = {}
    if page == "errors":
        own["advice"] = ADVICE
    elif page == "pagination":
        own["lists"] = lists()
    elif page == "changes":
        own["releases"] = releases()
    return render(request, f"docs/{page}.html", context(page) | own)


@require_safe
def reference(request: HttpRequest) -> HttpResponse:
    """Show Swagger UI from the sidecar, in a page of ours that keeps the Content-Security-Policy."""
    options = json.dumps(settings.SPECTACULAR_SETTINGS["SWAGGER_UI_SETTINGS"])
    return render(request, "docs/reference.html", context("") | {"settings": options})
