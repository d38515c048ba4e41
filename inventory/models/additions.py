"""Adding many pets in one transaction, with their events."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from django.db import transaction

from accounts.models import EventDraft, EventType
from inventory.models.pets import Pet

MOST_EVENTS = 1_000  # D41


@contextmanager
def added_pets() -> Iterator[Callable[[Iterable[Pet]], None]]:
    """Begin a transaction, and give the function that adds pets in it: all of them, or none.

    Up to 1,000 have an event each, more have one for all.
    """
    count = first_id = last_id = 0
    few: list[EventDraft] = []

    def add_some(pets: Iterable[Pet]) -> None:
        nonlocal count, first_id, last_id
        new = Pet.objects.bulk_create(pets)
        if not new:
            return
        first_id, last_id, count = first_id or new[0].pk, new[-1].pk, count + len(new)
        if count <= MOST_EVENTS:
            few.extend(EventDraft.of(EventType.PET_CREATED, {"pet": pet.as_json()}) for pet in new)

    with transaction.atomic():
        yield add_some
        if count > MOST_EVENTS:
            data = {"count": count, "firstId": first_id, "lastId": last_id}
            EventDraft.of(EventType.PETS_IMPORTED, data).save()
        else:
            EventDraft.objects.bulk_create(few)
