"""Full-text search over guides, errors and operations; a linear scan suffices."""

import html
import re
from functools import cache
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import strip_tags
from django.views.decorators.http import require_safe

from petstore.api.openapi.views import get_document
from petstore.db.names import fold_text
from petstore.site.docs import GUIDES, contents, context

MAX_QUERY_LENGTH = 100  # Characters of a query.
MAX_RESULTS = 20  # Results on the page.
EXCERPT_LENGTH = 160  # Characters of a result's text.
HEADING = re.compile(r'<h([1-3])(?: id="([^"]*)")?>(.*?)</h\1>', re.DOTALL)
BLOCK_END = re.compile(r"</(?:dd|dt|figcaption|li|p|pre|td|th)>")  # Separates words.


class SearchResult(NamedTuple):
    kind: str
    title: str
    address: str
    text: str


@require_safe
def search(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()[:MAX_QUERY_LENGTH]
    found = search_results(query, index()) if query else []
    page = context("") | {"title": "Search", "query": query, "results": found[:MAX_RESULTS]}
    return render(request, "docs/search.html", page)


def search_results(query: str, entries: tuple[SearchResult, ...]) -> list[SearchResult]:
    """Return the entries that contain every word, matches in the title first."""
    words = fold_text(query).split()

    def has_all(text: str) -> bool:
        key = fold_text(text)
        return all(word in key for word in words)

    found = [one for one in entries if has_all(f"{one.title} {one.text}")]
    found.sort(key=lambda one: not has_all(one.title))
    return [one._replace(text=excerpt(one.text, words[0])) for one in found]


def excerpt(text: str, word: str) -> str:
    at = max(fold_text(text).find(word) - EXCERPT_LENGTH // 2, 0)
    start = text.find(" ", at) + 1 if at else 0
    part = text[start : start + EXCERPT_LENGTH]
    whole = start + EXCERPT_LENGTH >= len(text)
    return f"{'… ' if start else ''}{part if whole else part.rpartition(' ')[0] + ' …'}"


@cache
def index() -> tuple[SearchResult, ...]:
    templates = ((name, f"docs/{name}.html") for name in GUIDES)
    pages = ((name, render_to_string(file, contents(name), HttpRequest())) for name, file in templates)
    sections = (one for name, page in pages for one in sections_of(name, page))
    return (*operations(), *sections)


def operations() -> list[SearchResult]:
    return [
        SearchResult(
            "Operation",
            f"{method.upper()} {path}",
            f"{reverse('docs')}#/{operation['tags'][0]}/{operation['operationId']}",
            f"{operation['operationId']}: {operation['summary']}. {operation.get('description', '')}",
        )
        for path, methods in get_document()["paths"].items()
        for method, operation in methods.items()
        if "operationId" in operation
    ]


def sections_of(name: str, page: str) -> list[SearchResult]:
    content = page.partition("<main")[2].partition('<nav class="neighbours"')[0].partition("</main>")[0]
    _, *parts = HEADING.split(content)
    found = []
    for anchor, title, body in zip(parts[1::4], parts[2::4], parts[3::4], strict=True):
        heading, text = (
            " ".join(html.unescape(strip_tags(BLOCK_END.sub(" ", one))).split()) for one in (title, body)
        )
        kind = "Error" if title.startswith("<code>") else "Guide"
        full_title = heading if heading == GUIDES[name] else f"{GUIDES[name]}: {heading}"
        address = reverse(f"docs-{name}") + (f"#{anchor}" if anchor else "")
        found.append(SearchResult(kind, full_title, address, text))
    return found
