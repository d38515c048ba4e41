"""The documentation: guides, and the reference in which every operation can be tried."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_safe
from drf_spectacular.views import SpectacularSwaggerView
from rest_framework.request import Request
from rest_framework.response import Response

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
    """Show one of GUIDES."""
    own: dict[str, Any] = {}
    if page == "errors":
        own["advice"] = ADVICE
    elif page == "changes":
        own["releases"] = releases()
    return render(request, f"docs/{page}.html", context(page) | own)


@method_decorator(require_safe, name="dispatch")
class Reference(SpectacularSwaggerView):
    """Swagger UI from the sidecar, in a page of ours that keeps the Content-Security-Policy."""

    url_name = "openapi"
    template_name = "docs/reference.html"
    throttle_classes = []  # Reading the documentation needs no key and counts for nobody.

    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return the page."""
        response: Response = super().get(request, *args, **kwargs)  # type: ignore[no-untyped-call]
        response.data |= context("")
        del response[
            "Cross-Origin-Opener-Policy"
        ]  # Loosened for sign-ins by OAuth, of which there are none.
        return response
