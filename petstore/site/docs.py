"""The guides and the API reference."""

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from petstore.api.errors import ErrorCode
from petstore.api.link_header import format_link, get_page_url
from petstore.api.openapi.headers import COMMON_HEADERS, HEADERS
from petstore.api.openapi.lists import get_list_filters
from petstore.api.openapi.views import get_document
from petstore.site.client_packages import get_package_urls
from petstore.site.feeds import CHANGES
from petstore.site.markdown import convert_to_markdown
from petstore.site.reference import SAMPLES, get_operations
from petstore.site.samples import TEMPLATES, TITLES, build_samples

MARKDOWN = "text/markdown"
DEMO_SCOPES = {None, "pets:read"}  # Of operations that the demo key may call.
GUIDES = {
    "quickstart": "Quickstart",
    "clients": "Client packages",
    "authentication": "Authentication",
    "your-account": "Your account",
    "environments": "Environments",
    "orders": "Orders",
    "rate-limits": "Rate limits",
    "account": "Account and usage",
    "errors": "Errors",
    "pagination": "Pagination",
    "retries": "Retries",
    "retry-clients": "Retries by client",
    "events": "Events",
    "webhooks": "Webhooks",
    "deprecation": "Deprecation",
    "changes": "Changes",
}


def get_context(page: str = "") -> dict[str, Any]:
    """Build the context that all templates share. `page` is empty outside the guides."""
    return get_neighbours(page) | {
        "guides": [(reverse(f"docs-{name}"), title, name == page) for name, title in GUIDES.items()],
        "tags": get_document()["tags"],
        "operations": get_operations(),
        "codes": list(ErrorCode),
        "lists": get_list_filters(),
        "common_headers": {name: HEADERS[name] for name in COMMON_HEADERS},
        "title": GUIDES.get(page, "Reference"),
        "base_url": settings.BASE_URL,
        "staging_base_url": settings.STAGING_BASE_URL,
        "key_prefix": "psk_test_" if settings.ENVIRONMENT == "staging" else "psk_live_",
        "client_packages": get_package_urls(),
        "webhook_networks": settings.WEBHOOK_SENT_FROM,
        "event_retention_days": settings.EVENT_RETENTION_DAYS,
        "anonymous_per_minute": settings.ANONYMOUS_PER_MINUTE,
        "get_pet_deprecated_at": settings.GET_PET_DEPRECATED_AT,
        "get_pet_removed_at": settings.GET_PET_REMOVED_AT,
        "changes": CHANGES,
    }


def get_neighbours(page: str) -> dict[str, tuple[str, str] | None]:
    """Return URL and title of the previous and next guides, or None at either end; {} for other pages."""
    if page not in GUIDES:
        return {}
    links = [None, *((reverse(f"docs-{name}"), title) for name, title in GUIDES.items()), None]
    position = list(GUIDES).index(page) + 1
    return {"previous": links[position - 1], "next": links[position + 1]}


@require_safe
def guide(request: HttpRequest, page: str, *, markdown: bool = False) -> HttpResponse:
    """Render a guide. Raises Http404 if there is no such guide."""
    if page not in GUIDES:
        raise Http404
    markdown = markdown or prefers_markdown(request)
    response = render(request, f"docs/{page}.html", get_context(page))
    return finish(response, reverse("docs-markdown", args=[page]), markdown=markdown)


def prefers_markdown(request: HttpRequest) -> bool:
    try:
        return request.get_preferred_type(["text/html", MARKDOWN]) == MARKDOWN
    except ValueError:  # Of a parameter in an encoding that Python lacks (RFC 2231).
        return False


def finish(page: HttpResponse, markdown_path: str, *, markdown: bool) -> HttpResponse:
    """Convert a page to Markdown if requested, and link it to that form and to the API's documents."""
    if markdown:
        text = convert_to_markdown(page.content.decode(), get_page_url("").removesuffix("/"))
        page = HttpResponse(text, content_type=f"{MARKDOWN}; charset=utf-8")
    patch_vary_headers(page, ["Accept"])
    page["Link"] = ", ".join(
        [*get_links(), format_link(get_page_url(markdown_path), "alternate", MARKDOWN)]
    )
    return page


def get_links() -> list[str]:
    """Return links to the documents of the API (RFC 8631)."""
    return [
        format_link(get_page_url(reverse("openapi")), "service-desc", "application/json"),
        format_link(get_page_url(reverse("docs")), "service-doc", "text/html"),
    ]


@require_safe
def reference(request: HttpRequest) -> HttpResponse:
    response = render(request, "docs/reference.html", get_context())
    llms_txt = format_link(get_page_url(reverse("llms-txt")), "alternate", MARKDOWN)
    response["Link"] = ", ".join([*get_links(), llms_txt])
    return response


@require_safe
def operation(request: HttpRequest, operation_id: str, *, markdown: bool = False) -> HttpResponse:
    """Render the reference of an operation. Raises Http404 if there is no such operation."""
    operation = get_operations().get(operation_id)
    if operation is None:
        raise Http404
    markdown = markdown or prefers_markdown(request)
    context = {
        "title": operation["summary"],
        "operation": operation,
        "sample": SAMPLES.get(operation_id),
        "samples": build_samples(operation),
        "request_templates": [(suffix, title, TEMPLATES[suffix]) for suffix, title in TITLES.items()],
        "demo_key": "" if markdown or operation["scope"] not in DEMO_SCOPES else settings.DEMO_KEY,
    }
    page = render(request, "docs/operation.html", get_context() | context)
    return finish(page, reverse("docs-operation-md", args=[operation_id]), markdown=markdown)
