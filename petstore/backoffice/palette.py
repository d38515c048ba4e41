"""The palette, which Ctrl+K opens: a search for anything that leads to its page.

The apps register what staff may do, and functions that find things. Those look up a few rows, by an index
where there may be many, and nothing that the member of staff may not see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, dropwhile
from typing import NamedTuple

from django.http import HttpRequest
from django.urls import reverse

from petstore.backoffice.navigation import navigation, own_pages

LONGEST = 250  # Characters that are searched for.
MOST = 5  # Results of one kind.
SHORTEST_VERB = 3  # Characters that stand for a verb: fewer begin many names.


class Result(NamedTuple):
    rank: int  # Those of rank 1 come first.
    icon: str  # A Material Symbol.
    title: str
    about: str  # What it is, for whoever does not know it by its title.
    link: str


class Offer(NamedTuple):
    """Something to do that has a page of its own."""

    icon: str
    title: str
    page: str  # The name of its URL.
    permission: str


Finder = Callable[[HttpRequest, str], Iterable[Result]]
Shortener = Callable[[str], str]
offers: list[Offer] = []
finders: list[Finder] = []
shorteners: list[Shortener] = []


def finds(finder: Finder) -> Finder:
    """Register a function that yields what a text, never empty, stands for."""
    finders.append(finder)
    return finder


def shortens(shortener: Shortener) -> Shortener:
    """Register a function that takes out of a text what nobody must look for, such as a secret."""
    shorteners.append(shortener)
    return shortener


def without_secrets(term: str) -> str:
    for shorten in shorteners:
        term = shorten(term)
    return term


def find(request: HttpRequest, text: str) -> list[Result]:
    """Return what a text stands for; without any, every page and whatever there is to do."""
    term = without_secrets(text[:LONGEST].strip())
    found = chain.from_iterable(finder(request, term) for finder in finders if term)
    results = (*to_do(request, term), *pages(request, term), *found)
    return sorted(results, key=lambda result: result.rank)


def to_do(request: HttpRequest, term: str) -> Iterator[Result]:
    for icon, title, page, permission in offers:
        rank = match(term, title)
        if rank and request.user.has_perm(permission):
            yield Result(rank, icon, title, "", reverse(page))


def pages(request: HttpRequest, term: str) -> Iterator[Result]:
    """Yield pages of the navigation and of the menu of one's own."""
    groups = [*navigation(request), {"items": own_pages(request)}]
    for item in chain.from_iterable(group["items"] for group in groups):
        if rank := match(term, item["title"]):
            yield Result(rank, item.get("icon", "person"), item["title"], "Page", str(item["link"]))


def match(term: str, title: str) -> int:
    """Return the rank of a title: 1 if it is the term, 2 if each word begins one of its; else 0."""
    words, own = term.lower().split(), title.lower().split()
    if words == own:
        return 1
    return 2 if all(any(known.startswith(word) for known in own) for word in words) else 0


def after(term: str, phrase: str) -> str | None:
    """Return what follows the words of a phrase, as typed: `issue key Acme` or `Issue a key for Acme`.

    None if the term does not begin as the phrase does. Nothing follows one that is only begun: `lif`,
    `issue a key fo`.
    """
    known, words = phrase.lower().split(), term.lower().split()
    half = len(words) == 1 and len(words[0]) >= SHORTEST_VERB and known[0].startswith(words[0])
    if half or (" ".join(known).startswith(" ".join(words)) and len(words) > 1):
        return ""
    if words[0] != known[0]:
        return None
    return " ".join(dropwhile(lambda word: word.lower() in known, term.split()))
