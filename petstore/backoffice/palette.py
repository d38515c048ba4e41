"""The command palette (Ctrl+K), which searches pages, actions and rows.

Each ModelAdmin declares its actions in `palette_commands`, and finds rows by an index in
`get_palette_results`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.contrib import admin
from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse

from petstore.backoffice.dashboard import list_url
from petstore.backoffice.navigation import get_account_menu, get_navigation

MAX_TERM_LENGTH = 250
MAX_RESULTS = 5  # Per kind of row.
MIN_VERB_LENGTH = 3  # Shorter prefixes of a verb would match too many names.
# A pasted key, possibly truncated; the group is its public ID (accounts/keys/key_format.py).
PASTED_KEY = re.compile(r"psk_(?:live|test)_([0-9A-Za-z]{0,14})", re.ASCII)


class SearchResult(NamedTuple):
    rank: int  # The lowest comes first.
    icon: str  # A Material Symbol.
    title: str
    description: str
    link: str


class PaletteCommand(NamedTuple):
    icon: str
    title: str
    page: str = "add"  # The last part of the URL name.
    permission: str = "add"


def strip_secret(term: str) -> str:
    """Reduce a pasted key to its public ID. Leave other text unchanged."""
    pasted_key = PASTED_KEY.search(term)
    return pasted_key[1] if pasted_key else term


def search(request: HttpRequest, text: str) -> list[SearchResult]:
    """Search pages, actions and rows. An empty text matches every page and action."""
    term = strip_secret(text[:MAX_TERM_LENGTH].strip())
    results = [*find_actions(request, term), *find_pages(request, term)]
    if term:
        results += find_rows(request, term)
    return sorted(results, key=lambda result: result.rank)


def find_actions(request: HttpRequest, term: str) -> Iterator[SearchResult]:
    for model, model_admin in admin.site._registry.items():
        app, name = model._meta.app_label, model._meta.model_name
        for icon, title, page, permission in model_admin.palette_commands:  # type: ignore[attr-defined]
            rank = rank_title(term, title)
            if rank and request.user.has_perm(f"{app}.{permission}_{name}"):
                yield SearchResult(rank, icon, title, "", reverse(f"admin:{app}_{name}_{page}"))


def find_pages(request: HttpRequest, term: str) -> Iterator[SearchResult]:
    items = [item for group in get_navigation(request) for item in group["items"]]
    for item in [*items, *get_account_menu(request)]:
        if rank := rank_title(term, item["title"], item.get("keywords", "")):
            yield SearchResult(rank, item.get("icon", "person"), item["title"], "Page", str(item["link"]))


def find_rows(request: HttpRequest, term: str) -> Iterator[SearchResult]:
    for model_admin in admin.site._registry.values():
        if model_admin.has_view_permission(request):
            yield from model_admin.get_palette_results(request, term)  # type: ignore[attr-defined]
        if model_admin.has_change_permission(request):
            yield from find_row_commands(model_admin, term)


def find_row_commands(model_admin: Any, term: str) -> Iterator[SearchResult]:
    """Link to the rows that a command applies to. `suspend acme` leads to the list of Acme."""
    verb, _, name = term.partition(" ")
    for title, state in model_admin.row_commands.items():
        if len(verb) >= MIN_VERB_LENGTH and title.lower().startswith(verb.lower()):
            query = {"state": state, SEARCH_VAR: name} if name else {"state": state}
            yield list_result(f"{title} {name or '...'}", model_admin.model, query)


def list_result(title: str, model: type[Model], query: Mapping[str, str]) -> SearchResult:
    link = list_url(model._meta.label_lower.replace(".", "_"), **query)
    return SearchResult(2, "list", title, "List", link)


def rank_title(term: str, title: str, keywords: str = "") -> int:
    """Return 1 for an equal title, 2 if each word of the term begins one in it, 3 with keywords, else 0."""
    term_words, title_words = term.lower().split(), title.lower().split()
    if term_words == title_words:
        return 1
    for rank, words in ((2, title_words), (3, title_words + keywords.split())):
        if all(any(word.startswith(prefix) for word in words) for prefix in term_words):
            return rank
    return 0
