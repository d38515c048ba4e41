"""The home page of the back office: next steps and cards.

Apps register functions that yield cards. These run aggregate queries only, and skip what the user may not
view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse


class Step(NamedTuple):
    rank: int  # Ascending.
    icon: str  # A Material Symbol.
    text: str
    verb: str  # The text of the link.
    link: str


class Card(NamedTuple):
    name: str  # Its template is admin/dashboard/NAME.html, which gets `facts` as `card`.
    place: str  # `top`, `left` or `right`.
    rank: int  # Ascending, within the place.
    facts: dict[str, Any]
    steps: Iterable[Step] = ()

    @property
    def template(self) -> str:
        return f"admin/dashboard/{self.name}.html"


CardFactory = Callable[[HttpRequest], Iterable[Card]]
card_factories: list[CardFactory] = []


def register_cards(factory: CardFactory) -> CardFactory:
    card_factories.append(factory)
    return factory


def home(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add cards and steps to the context (`DASHBOARD_CALLBACK` of Unfold)."""
    cards = [card for factory in card_factories for card in factory(request)]
    cards.sort(key=lambda card: card.rank)
    context["steps"] = sorted((step for card in cards for step in card.steps), key=lambda step: step.rank)
    context["cards"] = {card.name: card for card in cards}
    context["places"] = {
        place: [card for card in cards if card.place == place] for place in ("top", "left", "right")
    }
    return context


def list_url(model: str, **filters: Any) -> str:
    """Return the URL of a changelist; `model` is `APP_MODEL`."""
    url = reverse(f"admin:{model}_changelist")
    return f"{url}?{urlencode(filters)}" if filters else url
