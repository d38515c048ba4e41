"""The guides and the API reference."""

import json
from itertools import groupby
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from petstore.api.errors import ErrorCode
from petstore.api.link_header import get_page_url
from petstore.api.openapi.lists import get_list_operations
from petstore.api.openapi.views import get_document
from petstore.site.markdown import convert_to_markdown

GUIDES = {
    "quickstart": "Quickstart",
    "authentication": "Authentication",
    "environments": "Environments",
    "orders": "Orders",
    "rate-limits": "Rate limits",
    "account": "Account and usage",
    "errors": "Errors",
    "pagination": "Pagination",
    "retries": "Retries",
    "retry-clients": "Retries by client",
    "events": "Events",
    "deprecation": "Deprecation",
    "changes": "Versions and changes",
}
# The example that the reference shows for each operation.
SAMPLES = {
    "listPets": "first_call",
    "createPet": "create_pet",
    "getPet": "deprecation",
    "listOrders": "orders",
    "placeOrder": "place_order",
    "getOrder": "get_order",
    "cancelOrder": "cancel_order",
    "listCategories": "categories",
    "listEvents": "events",
    "getAccount": "account",
}


def get_context(page: str = "") -> dict[str, Any]:
    """Build the context that all templates share. `page` is empty for the reference and the search."""
    return get_neighbours(page) | {
        "guides": [(reverse(f"docs-{name}"), title, name == page) for name, title in GUIDES.items()],
        "title": GUIDES.get(page, "Reference"),
        "base_url": settings.BASE_URL,
        "staging_base_url": settings.STAGING_BASE_URL,
        "environment": settings.ENVIRONMENT,
        "key_prefix": "psk_test_" if settings.ENVIRONMENT == "staging" else "psk_live_",
        "events_kept_days": settings.EVENTS_KEPT_DAYS,
        "anonymous_per_minute": settings.ANONYMOUS_PER_MINUTE,
        "get_pet_deprecated_at": settings.GET_PET_DEPRECATED_AT,
        "get_pet_removed_at": settings.GET_PET_REMOVED_AT,
    }


def get_neighbours(page: str) -> dict[str, tuple[str, str]]:
    """Return URL and title of the previous and the next guide, where there is one."""
    if page not in GUIDES:
        return {}
    names = list(GUIDES)
    position = names.index(page)
    neighbours = {}
    if position > 0:
        neighbours["previous"] = get_link(names[position - 1])
    if position + 1 < len(names):
        neighbours["next"] = get_link(names[position + 1])
    return neighbours


def get_link(page: str) -> tuple[str, str]:
    return reverse(f"docs-{page}"), GUIDES[page]


@require_safe
def redirect_without_slash(request: HttpRequest, page: str) -> HttpResponse:
    """Redirect a guide's URL with a trailing slash. Raises Http404 if there is no such guide."""
    if page not in GUIDES:
        raise Http404
    return HttpResponsePermanentRedirect(reverse(f"docs-{page}"))


def get_guide_context(page: str) -> dict[str, Any]:
    context = get_context(page)
    if page == "errors":
        context["codes"] = list(ErrorCode)
    elif page == "pagination":
        context["lists"] = get_list_operations()
    elif page == "events":
        context["event_groups"] = group_event_examples()
    return context


def group_event_examples() -> list[dict[str, Any]]:
    """Group the example events of the OpenAPI document by the members of their data."""
    response = get_document()["paths"]["/events"]["get"]["responses"]["200"]
    examples = response["content"]["application/json"]["examples"]["Page"]["value"]
    groups = [list(events) for _, events in groupby(examples, key=lambda event: list(event["data"]))]
    return [
        {"types": [event["type"] for event in group], "json": json.dumps(group[0]["data"], indent=2)}
        for group in groups
    ]


@require_safe
def guide(request: HttpRequest, page: str) -> HttpResponse:
    return render(request, f"docs/{page}.html", get_guide_context(page))


@require_safe
def guide_markdown(request: HttpRequest, page: str) -> HttpResponse:
    """Render a guide as Markdown. Raises Http404 if there is no such guide."""
    if page not in GUIDES:
        raise Http404
    text = convert_to_markdown(guide(request, page).content.decode(), get_page_url("").removesuffix("/"))
    return HttpResponse(text, content_type="text/markdown; charset=utf-8")


@require_safe
def reference(request: HttpRequest) -> HttpResponse:
    """Render Swagger UI with our own scripts: the Content-Security-Policy forbids inline ones."""
    options = json.dumps(settings.SPECTACULAR_SETTINGS["SWAGGER_UI_SETTINGS"])
    context = get_context() | {"settings": options, "samples": SAMPLES.items()}
    return render(request, "docs/reference.html", context)
