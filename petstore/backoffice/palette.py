"""The palette, which Ctrl+K opens: a search for anything that leads to its page.

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

LONGEST = 250  # Characters that are searched for.
MAX_RESULTS = 5  # Results of one kind.
MIN_VERB_LENGTH = 3  # Characters that stand for a verb: fewer begin many names.
# The public id, or a part of it, in a key that was pasted whole or in part (accounts/keys/key_format.py).
PASTED_KEY = re.compile(r"psk_(?:live|test)_([0-9A-Za-z]{0,14})", re.ASCII)


class SearchResult(NamedTuple):
    rank: int  # Those of rank 1 come first.
    icon: str  # A Material Symbol.
    title: str
    about: str  # What it is, for whoever does not know it by its title.
    link: str


class PaletteCommand(NamedTuple):
    """Something to do that has a page of its own."""

    icon: str
    title: str
    page: str = "add"  # The end of the name of its URL.
    permission: str = "add"


def without_secret(term: str) -> str:
    """Return the public id of a key that was pasted, and any other text as it is."""
    pasted = PASTED_KEY.search(term)
    return pasted[1] if pasted else term


def find(request: HttpRequest, text: str) -> list[SearchResult]:
    """Return what a text stands for; without any, every page and whatever there is to do."""
    term = without_secret(text[:LONGEST].strip())
    results = [*to_do(request, term), *pages(request, term), *(rows(request, term) if term else ())]
    return sorted(results, key=lambda result: result.rank)


def to_do(request: HttpRequest, term: str) -> Iterator[SearchResult]:
    for model, model_admin in admin.site._registry.items():
        app, name = model._meta.app_label, model._meta.model_name
        for icon, title, page, permission in getattr(model_admin, "offers", ()):
            rank = match(term, title)
            if rank and request.user.has_perm(f"{app}.{permission}_{name}"):
                yield SearchResult(rank, icon, title, "", reverse(f"admin:{app}_{name}_{page}"))


def pages(request: HttpRequest, term: str) -> Iterator[SearchResult]:
    """Yield pages of the navigation and of the menu of one's own."""
    groups = [*navigation(request), {"items": account_menu(request)}]
    for item in chain.from_iterable(group["items"] for group in groups):
        if rank := match(term, item["title"]):
            yield SearchResult(rank, item.get("icon", "person"), item["title"], "Page", str(item["link"]))


def rows(request: HttpRequest, term: str) -> Iterator[SearchResult]:
    for model_admin in admin.site._registry.values():
        if model_admin.has_view_permission(request):
            yield from model_admin.palette_results(request, term)  # type: ignore[attr-defined]  # Ours all have it.


def match(term: str, title: str) -> int:
    """Return the rank of a title: 1 if it is the term, 2 if each word begins one of its; else 0."""
    words, own = term.lower().split(), title.lower().split()
    if words == own:
        return 1
    return 2 if all(any(known.startswith(word) for known in own) for word in words) else 0


def phrase_argument(term: str, phrase: str) -> str | None:
    """Return what follows the words of a phrase, as typed: `issue key Acme` or `Issue a key for Acme`.

    None if the term does not begin as the phrase does. Nothing follows one that is only begun: `lif`,
    `issue a key fo`.
    """
    known, words = phrase.lower().split(), term.lower().split()
    half = len(words) == 1 and len(words[0]) >= MIN_VERB_LENGTH and known[0].startswith(words[0])
    if half or (" ".join(known).startswith(" ".join(words)) and len(words) > 1):
        return ""
    if words[0] != known[0]:
        return None
    return " ".join(dropwhile(lambda word: word.lower() in known, term.split()))
