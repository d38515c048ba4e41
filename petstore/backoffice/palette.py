"""The command palette (Ctrl+K), which searches pages, actions and rows.

Each ModelAdmin declares its actions in `palette_commands`, and finds rows by an index in
`get_palette_results`.
"""

import re
from collections.abc import Iterator, Mapping, Sized
from itertools import dropwhile
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
    link: str  # Empty for signing out, which a form does.
    has_more: bool = False  # Whether it leads to a list of more than MAX_RESULTS rows.


class PaletteCommand(NamedTuple):
    icon: str
    title: str
    page: str = "add"  # The last part of the URL name.
    permission: str = "add"


class ListCommand(NamedTuple):
    """A command for rows, which a list shows with its links. `suspend acme` leads to the list of Acme."""

    icon: str
    phrase: str  # Precedes the name of the row.
    keywords: str  # Further words that find it.
    permission: str
    filters: Mapping[str, str] = {}

    def get_name(self, term: str) -> str | None:
        """Return the text after the words of the command, "" for their beginnings, else None."""
        if rank_title(term, self.phrase, self.keywords):
            return ""
        words, known = term.split(), f"{self.phrase} {self.keywords}".lower().split()
        name = list(dropwhile(lambda word: word.lower() in known, words))
        return " ".join(name) if len(name) < len(words) else None


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
    if rank := rank_title(term, "Sign out", "log out logout"):
        yield SearchResult(rank, "logout", "Sign out", "", "")


def find_rows(request: HttpRequest, term: str) -> Iterator[SearchResult]:
    for model_admin in admin.site._registry.values():
        if model_admin.has_view_permission(request):
            yield from model_admin.get_palette_results(request, term)  # type: ignore[attr-defined]
            yield from find_list_commands(request, term, model_admin)


def find_list_commands(request: HttpRequest, term: str, model_admin: Any) -> Iterator[SearchResult]:
    """Link to the rows that a command applies to, or to those with the name after its words."""
    for command in model_admin.list_commands:
        name = command.get_name(term)
        if name is not None and request.user.has_perm(command.permission):
            query = {**command.filters, SEARCH_VAR: name} if name else command.filters
            yield list_result(command.icon, f"{command.phrase} {name or '...'}", model_admin.model, query)


def list_result(
    icon: str, title: str, model: type[Model], query: Mapping[str, str], rows: Sized = ()
) -> SearchResult:
    """Link to a list. `rows` are the first ones, at most MAX_RESULTS + 1, if they are results as well."""
    link = list_url(model._meta.label_lower.replace(".", "_"), **query)
    return SearchResult(2, icon, title, "List", link, len(rows) > MAX_RESULTS)


def rank_title(term: str, title: str, keywords: str = "") -> int:
    """Return 1 for an equal title, 2 if each word of the term begins one in it, 3 with keywords, else 0."""
    term_words, title_words = term.lower().split(), title.lower().split()
    if term_words == title_words:
        return 1
    for rank, words in ((2, title_words), (3, title_words + keywords.split())):
        if all(any(word.startswith(prefix) for word in words) for prefix in term_words):
            return rank
    return 0
