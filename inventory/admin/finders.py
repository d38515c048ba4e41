"""What the palette finds of orders and pets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.http import HttpRequest
from django.urls import reverse

from inventory.admin.orders import VERBS
from inventory.admin.shared import label
from inventory.admin.stages import literally
from inventory.models import Order, Pet, Stage
from inventory.search import starting_with
from petstore.backoffice import palette
from petstore.backoffice.changelist import row_id
from petstore.backoffice.dashboard import listing
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import MOST, SHORTEST_VERB, Offer, Result

# `17`, `#17`, `order 17`, `approve 17` or `approve order 17`.
NUMBERED = re.compile(r"(?:([a-z]+)\s+)??(?:(order|pet)\s+)?#?(\d{1,19})", re.ASCII | re.IGNORECASE)
WAITING = {"approve": Stage.TO_APPROVE, "ship": Stage.TO_SHIP, "deliver": Stage.SHIPPED}

palette.offers += [
    Offer("add", "Add a pet", "admin:inventory_pet_add", "inventory.add_pet"),
    Offer("upload", "Import pets", "admin:inventory_pet_import", "inventory.add_pet"),
    Offer("download", "Export pets", "admin:inventory_pet_export", "inventory.view_pet"),
    Offer("add", "Add a category", "admin:inventory_category_add", "inventory.add_category"),
]


def numbered(term: str, kind: str) -> tuple[str, int | None]:
    """Return the verb in front, if there is one, and the id; None if the text names nothing of the kind."""
    found = NUMBERED.fullmatch(term)
    if found is None or (found[2] or kind).lower() != kind:
        return "", None
    return (found[1] or "").lower(), row_id(found[3])


@palette.finds
def orders(request: HttpRequest, term: str) -> Iterator[Result]:
    """Yield the order of an id, and what may be done to it now."""
    wanted, pk = numbered(term, "order")
    if pk is None or not may_view(request, "inventory.order"):
        return
    for order in Order.objects.filter(pk=pk).select_related("account", "pet"):
        about = f"{order.get_status_display()}, {label(order.pet)} for {order.account}"
        link = reverse("admin:inventory_order_change", args=[pk])
        if not wanted:
            yield Result(1, "receipt_long", f"Order {pk}", about, link)
        if request.user.has_perm("inventory.change_order"):
            # Ship now and ship later are one word to search for, and one page.
            words = dict.fromkeys(name.split("_")[0] for name, verb in VERBS.items() if verb.suits(order))
            for word in words:
                if word.startswith(wanted):
                    title = f"{word.capitalize()} order {pk}"
                    yield Result(1 if wanted else 2, "receipt_long", title, about, link)


@palette.finds
def waiting(request: HttpRequest, term: str) -> Iterator[Result]:
    """Yield what waits to be done, `approve` or `ship orders`: the list, and its first orders."""
    verb = term.lower().removesuffix("s").removesuffix("order").strip()
    if len(verb) < SHORTEST_VERB or not request.user.has_perm("inventory.change_order"):
        return
    for word, stage in WAITING.items():
        if word.startswith(verb):
            yield Result(
                1, "receipt_long", f"Orders to {word}", "", listing("inventory_order", stage=stage)
            )
            found = Order.objects.filter(literally(stage.orders)).select_related("account", "pet")
            for order in found.order_by("id")[:MOST]:
                about = f"{label(order.pet)} for {order.account}"
                link = reverse("admin:inventory_order_change", args=[order.pk])
                yield Result(2, "receipt_long", f"{word.capitalize()} order {order.pk}", about, link)


@palette.finds
def pets(request: HttpRequest, term: str) -> Iterator[Result]:
    """Yield the pet of an id, and pets by the start of the name, in the order of the index."""
    if not may_view(request, "inventory.pet"):
        return
    verb, pk = numbered(term, "pet")
    all_pets = Pet.objects.select_related("category")
    exact = list(all_pets.filter(pk=pk)) if pk is not None and not verb else []
    others = [pet for pet in starting_with(all_pets, term)[: MOST + 1] if pet not in exact]
    for rank, found in ((1, exact), (2, others[:MOST])):
        for pet in found:
            about = f"Pet, {pet.get_status_display().lower()}, {pet.category}"
            link = reverse("admin:inventory_pet_change", args=[pet.pk])
            yield Result(rank, "pets", label(pet), about, link)
