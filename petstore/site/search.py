"""Search in guides, errors, operations and other pages, with SQLite's full-text search (FTS5) in memory."""

import html
import re
import sqlite3
import tomllib
import weakref
from collections import Counter
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import escape, strip_tags
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from petstore.db.names import fold_text
from petstore.site.docs import GUIDES, get_context
from petstore.site.reference import get_operations

DATA = tomllib.loads(Path(__file__).with_name("search.toml").read_text("utf-8"))
STOP_WORDS = frozenset(DATA["stop_words"].split())
MAX_QUERY_LENGTH, MAX_WORDS = 100, 8
MAX_RESULTS, MAX_SUGGESTIONS = 20, 3
MIN_PREFIX_LENGTH, MAX_EXTENSIONS = 3, 10
MIN_TYPO_LENGTH = 6  # Shorter words may be a letter away from a word with another meaning.
HEADING = re.compile(r'<h([1-3])(?: id="([^"]*)")?>(.*?)</h\1>', re.DOTALL)
OMITTED = re.compile(r"<figure.*?</figure>|<pre [^>]*><code id=.*?</pre>|<thead>.*?</thead>", re.DOTALL)
CELL_END = re.compile(r"</t[dh]>\s*(?=<t[dh])")
BLOCK_END = re.compile(r"</(?:dd|dt|li|p|pre)>")
WORD = re.compile(r"[^\W_]+")
CREATE = """
CREATE VIRTUAL TABLE heading USING fts5 (text, tokenize = porter);
CREATE VIRTUAL TABLE entry USING fts5 (kind UNINDEXED, title, url UNINDEXED, text, tokenize = porter);
CREATE VIRTUAL TABLE synonym USING fts5 (word, others, tokenize = porter);
"""
MARK, END_MARK = "\x02", "\x03"
# The heading of a section counts most, then the name of its guide. Pages precede their sections, and the
# history of the API comes last. Lower scores are better; similar ones keep the order of the documentation.
SELECT = """
WITH headed AS MATERIALIZED (
    SELECT rowid AS id, bm25(heading) AS score FROM heading WHERE heading MATCH :any
)
SELECT kind, highlight(entry, 1, char(2), char(3)), url, snippet(entry, 3, char(2), char(3), '…', 24)
FROM entry LEFT JOIN headed ON headed.id = entry.rowid WHERE entry MATCH :query
ORDER BY round(
    bm25(entry, 0, 3, 0, 1) + 4 * coalesce(score, 0) + (url LIKE '%#%') + 3 * (url LIKE '%changes#%')
), entry.rowid LIMIT :limit
"""


class SearchResult(NamedTuple):
    kind: str
    title: str
    url: str
    text: str


class Findings(NamedTuple):
    results: list[SearchResult]  # The best, with marked matches.
    total: int  # Of the entries with all words. If 0, the results have some of the words.
    words: list[str]  # After the correction of typos.


@require_safe
def search(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()[:MAX_QUERY_LENGTH]
    context: dict[str, Any] = get_context() | {"title": "Search", "query": query}
    if query:
        words = split_query(query)
        findings = find(tuple(words))
        context |= {"findings": findings, "is_corrected": findings.words != words}
    return render(request, "docs/search.html", context)


@lru_cache(maxsize=1000)  # Bounded, because clients may send any words.
def find(words: tuple[str, ...]) -> Findings:
    return build_index().find(list(words))


def suggest_pages(path: str) -> list[SearchResult]:
    """Return the pages whose titles match a path best, but none for a path longer than any page's."""
    findings = find(tuple(split_query(path if len(path) <= MAX_QUERY_LENGTH else "")))
    return [page for page in findings.results if "<mark>" in page.title][:MAX_SUGGESTIONS]


def split_words(text: str) -> list[str]:
    return WORD.findall(fold_text(text).lower())


def split_query(query: str) -> list[str]:
    words = split_words(query)
    return ([word for word in words if word not in STOP_WORDS] or words)[:MAX_WORDS]


class SearchIndex:
    def __init__(self, entries: list[SearchResult]) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self._database.close)  # Since 3.13, Python warns of one left open.
        self._database.executescript(CREATE)
        headings = [(entry.title.rpartition(": ")[2],) for entry in entries]
        self._database.executemany("INSERT INTO heading VALUES (?)", headings)
        self._database.executemany("INSERT INTO entry VALUES (?, ?, ?, ?)", entries)
        self._database.executemany("INSERT INTO synonym VALUES (?, ?)", DATA["synonyms"].items())
        texts = " ".join(f"{entry.title} {entry.text}" for entry in entries)
        words = Counter([*DATA["synonyms"], *split_words(texts)])
        self._words = [word for word, _ in words.most_common()]

    def find(self, words: list[str]) -> Findings:
        """Rank the entries with every word or, if there are none, those with some of them."""
        completed = [self._complete(word) for word in words]
        words, forms = [word for word, _ in completed], [form for _, form in completed]
        every, any_ = " AND ".join(forms), " OR ".join(forms)
        total = self._count(every)
        limit = MAX_RESULTS if total else MAX_SUGGESTIONS
        values = {"query": every if total else any_, "any": any_, "limit": limit}
        found = self._database.execute(SELECT, values) if forms else ()
        return Findings([SearchResult(*map(to_markup, row)) for row in found], total, words)

    def _count(self, query: str) -> int:
        rows = self._database.execute("SELECT count(*) FROM entry WHERE entry MATCH ?", (query or '""',))
        return int(rows.fetchone()[0])

    def _complete(self, word: str) -> tuple[str, str]:
        """Return a word, corrected if it is a typo, and an expression that matches what it stands for."""
        others = self._database.execute("SELECT others FROM synonym WHERE word MATCH ?", (f'"{word}"',))
        form = match_any([word, *" ".join(row[0] for row in others).split()])
        if self._count(form):
            return word, form
        longer = [known for known in self._words if known.startswith(word)][:MAX_EXTENSIONS]
        if longer and len(word) >= MIN_PREFIX_LENGTH:
            return word, match_any(longer)
        meant = next((known for known in self._words if is_typo(word, known)), word)
        return self._complete(meant) if meant != word else (word, form)


def match_any(words: list[str]) -> str:
    return "({})".format(" OR ".join(f'"{word}"' for word in words))


def is_typo(word: str, known: str) -> bool:
    """Whether one letter was added, omitted or replaced, or two were exchanged, after the first letter."""
    if len(word) < MIN_TYPO_LENGTH or word[0] != known[0] or abs(len(word) - len(known)) > 1:
        return False
    start = next((i for i, (a, b) in enumerate(zip(word, known, strict=False)) if a != b), len(known))
    typed, meant = word[start:], known[start:]
    return meant in {typed[1:], typed[1::-1] + typed[2:]} or meant[1:] in {typed, typed[1:]}


def to_markup(text: str) -> SafeString:
    return SafeString(escape(text).replace(MARK, "<mark>").replace(END_MARK, "</mark>"))


@cache
def build_index() -> SearchIndex:
    entries = index_operations()
    entries += [SearchResult(*entry) for entry in DATA["entries"]]
    for name in GUIDES:
        page = render_to_string(f"docs/{name}.html", get_context(name), HttpRequest())
        entries += index_sections(name, page)
    return SearchIndex(entries)


def index_operations() -> list[SearchResult]:
    """Index operations by their description, unless it is about the operation that replaces them."""
    return [
        SearchResult(
            "Operation",
            f"{operation['summary']}: {operation['method']} {operation['path']}",
            reverse("docs-operation", args=[name]),
            name if "deprecated" in operation else f"{name}: {operation['description']}".replace("`", ""),
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
