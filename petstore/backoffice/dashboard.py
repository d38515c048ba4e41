"""The home page of the back office: what to do next, and cards about how the shop stands.

The apps register functions that make the cards. Those ask for aggregates alone, and for nothing that the
member of staff may not see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse


class Step(NamedTuple):
    rank: int  # Those of rank 1 come first.
    icon: str  # A Material Symbol.
    text: str
    verb: str  # What the link says.
    link: str


class Card(NamedTuple):
    name: str  # Its template is admin/dashboard/NAME.html, which calls the facts `card`.
    place: str  # `top`, or the column: `left` or `right`.
    rank: int  # In its place.
    facts: dict[str, Any]
    steps: Iterable[Step] = ()

    @property
    def template(self) -> str:
        return f"admin/dashboard/{self.name}.html"


Maker = Callable[[HttpRequest], Iterable[Card]]
makers: list[Maker] = []


def register_cards(maker: Maker) -> Maker:
    """Register a function that yields the cards that a member of staff may see."""
    makers.append(maker)
    return maker


def home(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the cards and the steps; `settings.UNFOLD` names this function."""
    cards = sorted((card for make in makers for card in make(request)), key=lambda card: card.rank)
    context["steps"] = sorted((step for card in cards for step in card.steps), key=lambda step: step.rank)
    context["cards"] = {card.name: card for card in cards}
    context["places"] = {
        place: [card for card in cards if card.place == place] for place in ("top", "left", "right")
    }
    return context


def list_url(model: str, **filters: Any) -> str:
    """Return the address of a model's list, with the list's own filters."""
    address = reverse(f"admin:{model}_changelist")
    return f"{address}?{urlencode(filters)}" if filters else address
