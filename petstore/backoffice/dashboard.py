"""The home page of the back office: next steps and cards.

Apps register functions that yield cards. A card omits data that the user may not view.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.urls import reverse


class Step(NamedTuple):
    rank: int  # The lowest comes first.
    icon: str  # A Material Symbol.
    text: str
    link_text: str
    link: str


class Card(NamedTuple):
    name: str
    position: str  # `top`, `left` or `right`.
    rank: int  # Within the position, the lowest comes first.
    context: dict[str, Any]  # Available to the template as `card`.
    steps: Iterable[Step] = ()

    @property
    def template(self) -> str:
        return f"admin/dashboard/{self.name}.html"


CardFactory = Callable[[HttpRequest], Iterable[Card]]
card_factories: list[CardFactory] = []


def register_cards(factory: CardFactory) -> CardFactory:
    card_factories.append(factory)
    return factory


def dashboard_callback(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add cards and steps to the context of the home page."""
    cards = [card for factory in card_factories for card in factory(request)]
    cards.sort(key=lambda card: card.rank)
    steps = [step for card in cards for step in card.steps]
    context["steps"] = sorted(steps, key=lambda step: step.rank)
    context["cards"] = {card.name: card for card in cards}
    context["cards_by_position"] = {
        position: [card for card in cards if card.position == position]
        for position in ("top", "left", "right")
    }
    return context


def list_url(model: str, **filters: Any) -> str:
    """Return the URL of a changelist. `model` has the form `app_model`."""
    return reverse(f"admin:{model}_changelist", query=filters or None)
