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

from petstore.db.names import fold_text
from petstore.site.docs import GUIDES, get_context, get_guide_context
from petstore.site.reference import get_operations

MAX_QUERY_LENGTH = 100
MAX_RESULTS = 20
EXCERPT_LENGTH = 160
HEADING = re.compile(r'<h([1-3])(?: id="([^"]*)")?>(.*?)</h\1>', re.DOTALL)
BLOCK_END = re.compile(r"</(?:dd|dt|figcaption|li|p|pre|td|th)>")


class SearchResult(NamedTuple):
    kind: str
    title: str
    address: str
    text: str


@require_safe
def search(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()[:MAX_QUERY_LENGTH]
    results = find_results(query, build_index()) if query else []
    context = get_context() | {"title": "Search", "query": query, "results": results[:MAX_RESULTS]}
    return render(request, "docs/search.html", context)


def find_results(query: str, index: list[SearchResult]) -> list[SearchResult]:
    """Return the entries that contain every word, with matches in the title first."""
    words = fold_text(query).split()

    def matches(text: str) -> bool:
        key = fold_text(text)
        return all(word in key for word in words)

    results = [entry for entry in index if matches(f"{entry.title} {entry.text}")]
    results.sort(key=lambda entry: not matches(entry.title))
    return [entry._replace(text=extract_excerpt(entry.text, words[0])) for entry in results]


def extract_excerpt(text: str, word: str) -> str:
    """Cut out the whole words around the first occurrence of `word`."""
    start = max(fold_text(text).find(word) - EXCERPT_LENGTH // 2, 0)
    if start:
        start = text.find(" ", start) + 1
    end = start + EXCERPT_LENGTH
    excerpt = text[start:end]
    if end < len(text):
        excerpt = f"{excerpt.rpartition(' ')[0]} …"
    return f"… {excerpt}" if start else excerpt


@cache
def build_index() -> list[SearchResult]:
    index = index_operations()
    for name in GUIDES:
        page = render_to_string(f"docs/{name}.html", get_guide_context(name), HttpRequest())
        index += index_sections(name, page)
    return index


def index_operations() -> list[SearchResult]:
    return [
        SearchResult(
            "Operation",
            f"{operation['method']} {operation['path']}",
            reverse("docs-operation", args=[operation["id"]]),
            f"{operation['id']}: {operation['summary']}. {operation['description']}",
        )
        for operation in get_operations().values()
    ]


def index_sections(name: str, page: str) -> list[SearchResult]:
    """Split a guide at its headings."""
    content = page.partition("<main")[2].partition('<nav class="neighbours"')[0].partition("</main>")[0]
    _, *parts = HEADING.split(content)
    sections = []
    for anchor, heading, body in zip(parts[1::4], parts[2::4], parts[3::4], strict=True):
        kind = "Error" if heading.startswith("<code>") else "Guide"
        title = extract_text(heading)
        if title != GUIDES[name]:
            title = f"{GUIDES[name]}: {title}"
        address = reverse(f"docs-{name}") + (f"#{anchor}" if anchor else "")
        sections.append(SearchResult(kind, title, address, extract_text(body)))
    return sections


def extract_text(markup: str) -> str:
    spaced = BLOCK_END.sub(" ", markup)  # Otherwise words of adjacent blocks would run together.
    return " ".join(html.unescape(strip_tags(spaced)).split())
