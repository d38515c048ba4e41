"""The command palette (Ctrl+K): a search over pages, actions and rows.

Each ModelAdmin declares `palette_commands`, and finds rows by an index in `palette_results`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, dropwhile
from typing import NamedTuple

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

from petstore.backoffice.navigation import account_menu, navigation

MAX_TERM_LENGTH = 250
MAX_RESULTS = 5  # Per kind.
MIN_VERB_LENGTH = 3  # Shorter prefixes of a verb are not recognized: they match too many names.
# The public ID, possibly cut, in a pasted key (accounts/keys/key_format.py).
PASTED_KEY = re.compile(r"psk_(?:live|test)_([0-9A-Za-z]{0,14})", re.ASCII)


class SearchResult(NamedTuple):
    rank: int  # Ascending.
    icon: str  # A Material Symbol.
    title: str
    about: str  # A description.
    link: str


class PaletteCommand(NamedTuple):
    icon: str
    title: str
    page: str = "add"  # The last part of the URL name.
    permission: str = "add"


def without_secret(term: str) -> str:
    """Reduce a pasted key to its public ID. Other text is unchanged."""
    pasted = PASTED_KEY.search(term)
    return pasted[1] if pasted else term


def find(request: HttpRequest, text: str) -> list[SearchResult]:
    """Search by a text. An empty one finds every page and action."""
    term = without_secret(text[:MAX_TERM_LENGTH].strip())
    results = [*action_results(request, term), *page_results(request, term)]
    if term:
        results += row_results(request, term)
    return sorted(results, key=lambda result: result.rank)


def action_results(request: HttpRequest, term: str) -> Iterator[SearchResult]:
    for model, model_admin in admin.site._registry.items():
        app, name = model._meta.app_label, model._meta.model_name
        for icon, title, page, permission in getattr(model_admin, "palette_commands", ()):
            rank = match_rank(term, title)
            if rank and request.user.has_perm(f"{app}.{permission}_{name}"):
                yield SearchResult(rank, icon, title, "", reverse(f"admin:{app}_{name}_{page}"))


def page_results(request: HttpRequest, term: str) -> Iterator[SearchResult]:
    groups = [*navigation(request), {"items": account_menu(request)}]
    for item in chain.from_iterable(group["items"] for group in groups):
        if rank := match_rank(term, item["title"]):
            yield SearchResult(rank, item.get("icon", "person"), item["title"], "Page", str(item["link"]))


def row_results(request: HttpRequest, term: str) -> Iterator[SearchResult]:
    for model_admin in admin.site._registry.values():
        if model_admin.has_view_permission(request):
            yield from model_admin.palette_results(request, term)  # type: ignore[attr-defined]


def match_rank(term: str, title: str) -> int:
    """Return 1 for an equal title, 2 if each word of the term is a prefix of one in the title, else 0."""
    words, own = term.lower().split(), title.lower().split()
    if words == own:
        return 1
    return 2 if all(any(known.startswith(word) for known in own) for word in words) else 0


def phrase_argument(term: str, phrase: str) -> str | None:
    """Return what follows a phrase in the term: `Acme` in `issue key Acme` or `Issue a key for Acme`.

    Empty if the term is a prefix of the phrase (`lif`, `issue a key fo`), None if it does not match.
    """
    known, words = phrase.lower().split(), term.lower().split()
    half = len(words) == 1 and len(words[0]) >= MIN_VERB_LENGTH and known[0].startswith(words[0])
    if half or (" ".join(known).startswith(" ".join(words)) and len(words) > 1):
        return ""
    if words[0] != known[0]:
        return None
    return " ".join(dropwhile(lambda word: word.lower() in known, term.split()))
