"""Documents at well-known URLs: API catalog, security.txt, robots.txt, sitemap, llms.txt, skill."""

import json

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape
from django.views.decorators.http import require_safe

from petstore.api.link_header import format_link, get_page_url
from petstore.site.docs import GUIDES, MARKDOWN, get_context
from petstore.site.reference import get_operations

TEXT = "text/plain; charset=utf-8"
CATALOG = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'


def build_url(name: str, **arguments: str) -> str:
    return get_page_url(reverse(name, kwargs=arguments))


@require_safe
def api_catalog(request: HttpRequest) -> HttpResponse:
    """Link the API to its documents (RFC 9727, RFC 9264 section 4.2)."""
    api = {
        "anchor": settings.BASE_URL,
        "service-desc": [
            {"href": build_url("openapi"), "type": "application/json"},
            {"href": build_url("openapi-yaml"), "type": "application/yaml"},
        ],
        "service-doc": [{"href": build_url("docs"), "type": "text/html"}],
        "status": [
            {"href": build_url("status"), "type": "text/html"},
            {"href": build_url("readyz"), "type": "application/json"},
        ],
    }
    response = HttpResponse(json.dumps({"linkset": [api]}), content_type=CATALOG)
    response["Link"] = format_link(build_url("api-catalog"), "api-catalog")
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
        f"Canonical: {build_url('security-txt')}",
    ]
    return HttpResponse("\n".join(lines) + "\n", content_type=TEXT)


@require_safe
def robots_txt(request: HttpRequest) -> HttpResponse:
    """Allow crawlers to read the pages of production, and nothing on staging (RFC 9309)."""
    disallowed = ["/"] if settings.ENVIRONMENT == "staging" else ["/admin/", "/v1/", "/docs/search"]
    lines = ["User-agent: *", *(f"Disallow: {path}" for path in disallowed)]
    return HttpResponse("\n".join([*lines, f"Sitemap: {build_url('sitemap')}"]) + "\n", content_type=TEXT)


@require_safe
def sitemap_xml(request: HttpRequest) -> HttpResponse:
    """List the public pages (sitemaps.org)."""
    names = ["home", "docs", "status", *(f"docs-{name}" for name in GUIDES)]
    operations = [build_url("docs-operation", operation_id=name) for name in get_operations()]
    urls = "".join(f"<url><loc>{escape(url)}</loc></url>" for url in [*map(build_url, names), *operations])
    schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
    text = f'<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="{schema}">{urls}</urlset>'
    return HttpResponse(text, content_type="application/xml")


@require_safe
def skill_md(request: HttpRequest) -> HttpResponse:
    """Tell agents how to call the API without a ban (agentskills.io)."""
    return render(request, "docs/SKILL.md", get_context(), content_type=f"{MARKDOWN}; charset=utf-8")


@require_safe
def llms_txt(request: HttpRequest) -> HttpResponse:
    """List the guides and the operations in Markdown for language models (llmstxt.org)."""
    guides = [f"- [{title}]({build_url('docs-markdown', page=name)})" for name, title in GUIDES.items()]
    operations = [
        f"- [{operation['summary']}]({build_url('docs-operation-md', operation_id=name)})"
        for name, operation in get_operations().items()
    ]
    lines = [
        "# Pet Store",
        "",
        f"> The JSON API of a pet store at {settings.BASE_URL}, with API keys and exact rate limits.",
        "",
        "## Guides",
        "",
        *guides,
        "",
        "## Reference",
        "",
        f"- [OpenAPI document]({build_url('openapi')}): all operations with their parameters and responses",
        *operations,
        "",
        "## For agents",
        "",
        f"- [Skill]({build_url('skill-md')}): how to call this API without being banned",
    ]
    return HttpResponse("\n".join(lines) + "\n", content_type=f"{MARKDOWN}; charset=utf-8")
