"""Search in guides, errors, operations and other pages, with SQLite's full-text search (FTS5) in memory."""

import html
import re
import sqlite3
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import escape, strip_tags
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from petstore.site.docs import GUIDES, get_context
from petstore.site.reference import get_operations

DATA = tomllib.loads(Path(__file__).with_name("search.toml").read_text("utf-8"))
STOP_WORDS = frozenset(DATA["stop_words"].split())
SYNONYMS = {word: others for others, words in DATA["synonyms"].items() for word in words.split()}
MAX_QUERY_LENGTH, MAX_WORDS = 100, 8
HEADING = re.compile(r'<h([1-3])(?: id="([^"]*)")?>(.*?)</h\1>', re.DOTALL)
EXAMPLE = re.compile(r"<figure.*?</figure>|<pre [^>]*><code id=.*?</pre>", re.DOTALL)
CREATE = "CREATE VIRTUAL TABLE page USING fts5(kind UNINDEXED, title, url UNINDEXED, text, tokenize=porter)"
# Titles count most, then pages, and the history of the API least. Lower scores are better.
SELECT = """
SELECT kind, highlight(page, 1, char(2), char(3)), url, snippet(page, 3, char(2), char(3), '…', 24)
FROM page WHERE page MATCH ?
ORDER BY round(bm25(page, 0, 6, 0, 1) + (url LIKE '%#%') + 3 * (url LIKE '%changes#%')), rowid LIMIT 20
"""


class SearchResult(NamedTuple):
    kind: str
    title: str
    url: str
    text: str


@require_safe
def search(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()[:MAX_QUERY_LENGTH]
    context = get_context() | {"title": "Search", "query": query, "results": find(query)}
    return render(request, "docs/search.html", context)


def suggest_pages(path: str) -> list[SearchResult]:
    """Return the pages whose titles match a path best."""
    return [page for page in find(path) if "<mark>" in page.title][:3]


def find(query: str) -> list[SearchResult]:
    """Return the best entries with every word or, if there are none, with words similar to some of them."""
    words = [word for word in re.findall(r"[^\W_]+", query.lower()) if word not in STOP_WORDS][:MAX_WORDS]
    similar = [word[:4] for word in words]  # They have the same first letters.
    for expression in (" AND ".join(map(match_word, words)), " OR ".join(map(match_word, similar))):
        if words and (rows := build_index().execute(SELECT, [expression]).fetchall()):
            return [SearchResult(*map(to_markup, row)) for row in rows]
    return []


def match_word(word: str) -> str:
    """Match a word, those that begin with it, and what it is a synonym of."""
    others = SYNONYMS.get(word) or SYNONYMS.get(word.removesuffix("s"), "")
    return "({})".format(" OR ".join([f'"{word}"*', *others.split()]))


def to_markup(text: str) -> SafeString:
    return SafeString(escape(text).replace("\x02", "<mark>").replace("\x03", "</mark>"))


@cache
def build_index() -> sqlite3.Connection:
    entries = [SearchResult(*entry) for entry in DATA["entries"]]
    for name in GUIDES:
        page = render_to_string(f"docs/{name}.html", get_context(name), HttpRequest())
        entries += split_guide(name, page)
    for name, operation in get_operations().items():
        title = f"{operation['summary']}: {operation['method']} {operation['path']}"
        text = f"{name}: {operation['description']}".replace("`", "")
        entries.append(SearchResult("Operation", title, reverse("docs-operation", args=[name]), text))
    index = sqlite3.connect(":memory:", check_same_thread=False)
    index.execute(CREATE)
    index.executemany("INSERT INTO page VALUES (?, ?, ?, ?)", entries)
    return index


def split_guide(name: str, page: str) -> Iterator[SearchResult]:
    content = page.partition("<main")[2].partition('<nav class="neighbours"')[0].partition("</main>")[0]
    _, *parts = HEADING.split(content)
    for anchor, heading, body in zip(parts[1::4], parts[2::4], parts[3::4], strict=True):
        title = f"{GUIDES[name]}: {extract_text(heading)}" if anchor else GUIDES[name]
        url = reverse(f"docs-{name}") + (f"#{anchor}" if anchor else "")
        yield SearchResult("Guide", title, url, extract_text(body))


def extract_text(markup: str) -> str:
    """Strip tags and example programs."""
    return " ".join(html.unescape(strip_tags(EXAMPLE.sub(" ", markup).replace("><", "> <"))).split())
