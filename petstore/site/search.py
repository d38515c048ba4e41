"""Search in guides, errors, operations and other pages. A linear scan suffices."""

import html
import re
import tomllib
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import strip_tags
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe

from petstore.db.names import fold_text
from petstore.site.docs import GUIDES, get_context
from petstore.site.reference import get_operations

DATA = tomllib.loads(Path(__file__).with_name("search.toml").read_text("utf-8"))
STOP_WORDS = frozenset(DATA["stop_words"].split())
MAX_QUERY_LENGTH, MAX_WORDS = 100, 8
MAX_CORRECTIONS = 2  # Of words in a query. Each compares the word with all known ones.
MAX_RESULTS = 20
MAX_SUGGESTIONS = 3
EXCERPT_LENGTH = 160
MIN_PREFIX_LENGTH = 3
MIN_SIMILARITY = 0.8  # For correcting typos, from 0 to 1.
ZONE_WEIGHTS = (6, 3, 1)  # Of a match in the heading, in the title with the guide's name, in the text.
HEADING = re.compile(r'<h([1-3])(?: id="([^"]*)")?>(.*?)</h\1>', re.DOTALL)
OMITTED = re.compile(r"<figure.*?</figure>|<pre [^>]*><code id=.*?</pre>|<thead>.*?</thead>", re.DOTALL)
CELL_END = re.compile(r"</t[dh]>\s*(?=<t[dh])")
BLOCK_END = re.compile(r"</(?:dd|dt|li|p|pre)>")
WORD = re.compile(r"[^\W_]+")
SUFFIX = re.compile(
    r"(?<=\w{3})(?:ations?|at(?:e[sd]?|ing)|ions?|ing|ie[sd]|e[sd]?|s|y)$|(?<=([^\W\d]))\1$"
)


class SearchResult(NamedTuple):
    kind: str
    title: str
    url: str
    text: str


class Findings(NamedTuple):
    results: list[SearchResult]
    is_complete: bool  # Whether the results contain all words. Otherwise no entry does.
    words: list[str]  # After the correction of typos.
    matched: set[str]  # The words of the documentation that these match.


@require_safe
def search(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()[:MAX_QUERY_LENGTH]
    context: dict[str, Any] = get_context() | {"title": "Search", "query": query}
    if query:
        words = split_query(query)
        findings = find(tuple(words))
        shown = findings.results[: MAX_RESULTS if findings.is_complete else MAX_SUGGESTIONS]
        context["results"] = [highlight(result, findings.matched) for result in shown]
        context |= {"findings": findings, "is_corrected": findings.words != words}
    return render(request, "docs/search.html", context)


@lru_cache(maxsize=1000)  # Bounded, because clients may send any words.
def find(words: tuple[str, ...]) -> Findings:
    return build_index().find(list(words))


def suggest_pages(path: str) -> list[SearchResult]:
    """Return the pages whose titles match a path best, but none for a path longer than any page's."""
    results, *_, matched = find(tuple(split_query(path if len(path) <= MAX_QUERY_LENGTH else "")))
    return [page for page in results if matched & {*split_words(page.title)}][:MAX_SUGGESTIONS]


def split_words(text: str) -> list[str]:
    return WORD.findall(fold_text(text).lower())


def split_query(query: str) -> list[str]:
    words = split_words(query)
    return ([word for word in words if word not in STOP_WORDS] or words)[:MAX_WORDS]


def stem(word: str) -> str:
    """Strip the suffixes of an English word, so that its forms share a stem."""
    while (shorter := SUFFIX.sub("", word)) != word:
        word = shorter
    return word


class SearchIndex:
    def __init__(self, entries: list[SearchResult]) -> None:
        self._entries = []
        for entry in entries:
            zones = (entry.title.rpartition(": ")[2], entry.title, entry.text)
            self._entries.append((entry, [set(split_words(zone)) for zone in zones]))
        self._stems = {word: stem(word) for _, zones in self._entries for zone in zones for word in zone}
        self._synonyms = {
            stem(word): set(map(stem, split_words(others))) for word, others in DATA["synonyms"].items()
        }

    def find(self, words: list[str]) -> Findings:
        """Rank the entries with every word or, if there are none, those with some of them."""
        unknown = [word for word in words if not self._match(word)]
        corrections = {word: self._correct(word) for word in unknown[:MAX_CORRECTIONS]}
        words = [corrections.get(word, word) for word in words]
        matches = [self._match(word) for word in words]
        matched = set().union(*matches)
        ranked = []
        for entry, zones in self._entries:
            weighted = list(zip(ZONE_WEIGHTS, zones, strict=True))
            weights = [
                max((weight for weight, zone in weighted if zone & match), default=0) for match in matches
            ]
            covered = len(zones[0] & matched) / max(len(zones[0]), 1)
            ranked.append((len(weights) - weights.count(0), sum(weights), covered, entry))
        ranked.sort(key=lambda ranking: ranking[:-1], reverse=True)
        is_complete = ranked[0][0] == len(words) > 0
        results = [entry for found, *_, entry in ranked if found >= (len(words) if is_complete else 1)]
        return Findings(results, is_complete, words, matched)

    def _match(self, word: str) -> set[str]:
        """Return the words of the documentation that are other forms, synonyms or extensions of a word."""
        roots = {stem(word)} | self._synonyms.get(stem(word), set())
        is_prefix = len(word) >= MIN_PREFIX_LENGTH
        return {
            known
            for known, root in self._stems.items()
            if root in roots or (is_prefix and known.startswith(word))
        }

    def _correct(self, word: str) -> str:
        """Return the most similar known word."""
        similar = get_close_matches(word, [*self._stems, *DATA["synonyms"]], 1, MIN_SIMILARITY)
        return similar[0] if similar else word


def highlight(entry: SearchResult, matched: set[str]) -> SearchResult:
    """Cut out the text around the first match, and mark the matches as HTML."""
    words = "|".join(map(re.escape, matched))
    pattern = re.compile(rf"(?<![^\W_]|[&#])({words})(?![^\W_])", re.IGNORECASE)  # Not the lt of &lt;.
    first = pattern.search(entry.text)
    title, text = (
        mark_safe(pattern.sub(r"<mark>\1</mark>", html.escape(part)))  # noqa: S308
        for part in (entry.title, extract_excerpt(entry.text, first.start() if first else 0))
    )
    return entry._replace(title=title, text=text)


def extract_excerpt(text: str, position: int) -> str:
    """Cut out the whole words around a position."""
    start = max(position - EXCERPT_LENGTH // 2, 0)
    start = text.find(" ", start) + 1 if start else 0
    excerpt = shorten(text[start:], EXCERPT_LENGTH, placeholder=" …")
    return f"… {excerpt}" if start else excerpt


@cache
def build_index() -> SearchIndex:
    entries = index_operations()
    for name, title, text in DATA["pages"]:
        entries.append(SearchResult("Page", title, reverse(name), text))
    for name in GUIDES:
        page = render_to_string(f"docs/{name}.html", get_context(name), HttpRequest())
        entries += index_sections(name, page)
    return SearchIndex(entries)


def index_operations() -> list[SearchResult]:
    return [
        SearchResult(
            "Operation",
            f"{operation['summary']}: {operation['method']} {operation['path']}",
            reverse("docs-operation", args=[name]),
            f"{name}: {operation['description']}".replace("`", ""),
        )
        for name, operation in get_operations().items()
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
        url = reverse(f"docs-{name}") + (f"#{anchor}" if anchor else "")
        sections.append(SearchResult(kind, title, url, extract_text(body)))
    return sections


def extract_text(markup: str) -> str:
    """Strip tags, example programs and table headings, and separate the cells of tables."""
    cells = CELL_END.sub(": ", OMITTED.sub(" ", markup)).replace("</tr>", "; ")
    return " ".join(html.unescape(strip_tags(BLOCK_END.sub(" ", cells))).split())
