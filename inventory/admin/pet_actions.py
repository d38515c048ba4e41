"""Moving many pets at once: those that may move, in one transaction, and why the others did not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db import transaction
from django.utils import timezone

from inventory.models import LIVE, PET_MOVES, Order, Pet, PetEvent, PetStatus

NAMES_SHOWN = 5
NAME_SHOWN = 40  # Characters.


@dataclass
class Outcome:
    """Which of the chosen rows were moved, and why the others were not."""

    done: list[Pet] = field(default_factory=list)
    skipped: dict[str, list[str]] = field(default_factory=dict)  # The rows as people read them, by reason.

    def skip(self, reason: str, row: str) -> None:
        self.skipped.setdefault(reason, []).append(row)

    def sentences(self) -> list[str]:
        """Return for each reason how many were skipped, and which."""
        return [why_skipped(reason, rows) for reason, rows in self.skipped.items()]


def why_skipped(reason: str, rows: list[str]) -> str:
    """Return a sentence: `2 skipped: sold pets can only be returned (Bella 12, Max 14)`."""
    shown = ", ".join(rows[:NAMES_SHOWN])
    more = len(rows) - NAMES_SHOWN
    return f"{len(rows)} skipped: {reason} ({shown}{f' and {more} more' if more > 0 else ''})."


def label(pet: Pet) -> str:
    name = pet.name if len(pet.name) <= NAME_SHOWN else f"{pet.name[: NAME_SHOWN - 3]}..."
    return f"{name} {pet.pk}"


def move_pets(
    ids: Iterable[int], to: PetStatus, *, by: str, reason: str = "", returns: bool = False
) -> Outcome:
    """Move the pets that may go there, in five queries however many they are.

    A sold pet is moved only where `returns` says so, and then no other is: taking stock back is never a
    side effect. Raises ValueError for returns without a reason.
    """
    if returns and not reason.strip():
        raise ValueError("A return needs a reason.")
    outcome = Outcome()
    wanted = set(ids)
    with transaction.atomic():
        # Locked in the order of ids, so that two of these never wait for each other.
        pets = list(Pet.objects.select_for_update().filter(pk__in=wanted).order_by("pk"))
        held = dict(Order.objects.filter(pet__in=pets, status__in=LIVE).values_list("pet_id", "pk"))
        moved = []
        for pet in pets:
            if why_not := refusal(pet, to, returns=returns, order=held.get(pet.pk)):
                outcome.skip(why_not, f"{label(pet)}{held_by(held.get(pet.pk))}")
            else:
                moved.append(pet)
        now = timezone.now()
        PetEvent.objects.bulk_create(
            PetEvent(pet=pet, from_status=pet.status, to_status=to, by=by, reason=reason[:255], at=now)
            for pet in moved
        )
        Pet.objects.filter(pk__in=[pet.pk for pet in moved]).update(status=to, updated_at=now)
    for pet in moved:
        pet.status, pet.updated_at = to, now
    outcome.done = moved
    for gone in sorted(wanted - {pet.pk for pet in pets}):
        outcome.skip("they are no longer there", f"pet {gone}")
    return outcome


def refusal(pet: Pet, to: PetStatus, *, returns: bool, order: int | None) -> str:
    """Return why the pet stays as it is, or nothing. Mirrors PET_MOVES and Pet.check_move."""
    if order is not None:
        return "a waiting order holds them; cancel or deliver it"
    if returns:
        return "" if pet.status == PetStatus.SOLD else "only sold pets can be returned"
    if pet.status == to:
        return f"they are {to.value} already"
    if pet.status == PetStatus.SOLD or to not in PET_MOVES[PetStatus(pet.status)]:
        return "sold pets can only be returned"
    return ""


def held_by(order: int | None) -> str:
    """Return the order that holds a pet, for a report."""
    return f": order {order}" if order is not None else ""
