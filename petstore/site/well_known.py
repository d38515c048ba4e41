"""Documents at well-known addresses: API catalog, security.txt, robots.txt, llms.txt."""

import json

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from petstore.api.link_header import link, page_url
from petstore.site.docs import GUIDES

TEXT = "text/plain; charset=utf-8"
CATALOG = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'


def url_of(name: str, **arguments: str) -> str:
    return page_url(reverse(name, kwargs=arguments).removeprefix("/"))


@require_safe
def api_catalog(request: HttpRequest) -> HttpResponse:
    """Link the API to its documents (RFC 9727, RFC 9264 section 4.2)."""
    api = {
        "anchor": settings.BASE_URL,
        "service-desc": [
            {"href": url_of("openapi"), "type": "application/json"},
            {"href": url_of("openapi-yaml"), "type": "application/yaml"},
        ],
        "service-doc": [{"href": url_of("docs"), "type": "text/html"}],
        "status": [
            {"href": url_of("status"), "type": "text/html"},
            {"href": url_of("readyz"), "type": "application/json"},
        ],
    }
    response = HttpResponse(json.dumps({"linkset": [api]}), content_type=CATALOG)
    response["Link"] = link(url_of("api-catalog"), "api-catalog")
    return response


@require_safe
def security_txt(request: HttpRequest) -> HttpResponse:
    """Render security.txt (RFC 9116). Raises Http404 if it is not configured or has expired."""
    contact, expires = settings.SECURITY_CONTACT, settings.SECURITY_EXPIRES
    if not contact or expires is None or expires <= timezone.now():
        raise Http404
    lines = [
        f"Contact: {contact}",
        f"Expires: {expires.isoformat()}",
        "Preferred-Languages: en",
        f"Canonical: {url_of('security-txt')}",
    ]
    return HttpResponse("\n".join(lines) + "\n", content_type=TEXT)


@require_safe
def robots_txt(request: HttpRequest) -> HttpResponse:
    """Allow crawlers on the pages of production, and nothing on staging (RFC 9309)."""
    closed = ["/"] if settings.ENVIRONMENT == "staging" else ["/admin/", "/v1/", "/docs/search"]
    lines = ["User-agent: *", *(f"Disallow: {path}" for path in closed)]
    return HttpResponse("\n".join(lines) + "\n", content_type=TEXT)


@require_safe
def llms_txt(request: HttpRequest) -> HttpResponse:
    """List the guides in Markdown for language models (llmstxt.org)."""
    guides = [f"- [{title}]({url_of('docs-markdown', page=name)})" for name, title in GUIDES.items()]
    lines = [
        "# Pet Store",
        "",
        f"> An API of pets and orders at {settings.BASE_URL}: JSON over HTTP, with keys and exact limits.",
        "",
        "## Guides",
        "",
        *guides,
        "",
        "## Reference",
        "",
        f"- [OpenAPI document]({url_of('openapi')}): every operation, its parameters and its responses",
    ]
    return HttpResponse("\n".join(lines) + "\n", content_type="text/markdown; charset=utf-8")
