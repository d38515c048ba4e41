"""Categories, pets, their history and the stock count."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from django.db import models, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from accounts.models import EventType, OutboxEvent
from inventory.search import Folded
from inventory.status import LIVE_STATUSES, PET_TRANSITIONS, PetStatus, TransitionError, inline_values
from petstore.db.keysets import OneFilterKey, TwoFilterKey
from petstore.db.names import NAME_LENGTH, UniquelyNamed, visible_name

BATCH_SIZE = 5_000
MAX_EVENTS_PER_IMPORT = 1_000


class Category(UniquelyNamed):
    description = models.TextField(blank=True)

    class Meta:
        verbose_name_plural = "categories"
        ordering = ["id"]
        constraints = [models.CheckConstraint(name="category_name_not_empty", condition=~Q(name=""))]


class StatusChange(models.Model):
    """An entry in the append-only history of a pet or an order."""

    at = models.DateTimeField(default=timezone.now)
    from_status = models.CharField(max_length=9, blank=True)
    to_status = models.CharField(max_length=9)
    by = models.CharField(max_length=255)
    reason = models.CharField(max_length=255, blank=True)

    class Meta:
        abstract = True
        ordering = ["-id"]

    @property
    def actor(self) -> str:
        """The actor as shown in the audit trail: a username, or `key` and its public ID."""
        return self.by.removeprefix("staff ")


class PetEvent(StatusChange):
    pet = models.ForeignKey("inventory.Pet", on_delete=models.CASCADE, related_name="events")
    order = models.ForeignKey(  # Null unless an order caused the change.
        "inventory.Order", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )

    def __str__(self) -> str:
        return f"{PetStatus(self.from_status).label} → {PetStatus(self.to_status).label}"


class PetQuerySet(QuerySet["Pet"]):
    def as_json(self) -> QuerySet[Pet, Any]:
        """Select the fields of the API's Pet as dicts."""
        return self.annotate(categoryId=F("category_id")).values("id", "name", "categoryId", "status")

    def create_with_event(self, **values: Any) -> Pet:
        """Insert a pet and its event. Raises IntegrityError at COMMIT if its category does not exist."""
        pet = Pet(**values)
        OutboxEvent.build(EventType.PET_CREATED, {"pet": pet.as_json()}).insert_with(pet)
        return pet

    def create_batch(self, rows: Iterable[dict[str, Any]]) -> list[Pet]:
        """Insert the pets and their events, all or none, in two statements. At most MAX_EVENTS_PER_IMPORT.

        Raises IntegrityError at COMMIT if a category does not exist.
        """
        pets = [Pet(**values) for values in rows]
        self.bulk_create_with_events(pets)
        return pets

    @transaction.atomic
    def bulk_create_with_events(self, rows: Iterable[Pet]) -> None:
        """Insert the pets in batches, all or none.

        Writes one event per pet, or a single event for more than MAX_EVENTS_PER_IMPORT pets (D41).
        """
        count = first_id = last_id = 0
        events: list[OutboxEvent] = []
        remaining = iter(rows)
        while pets := self.bulk_create(list(islice(remaining, BATCH_SIZE))):
            first_id = first_id or pets[0].pk
            last_id = pets[-1].pk
            count += len(pets)
            if count <= MAX_EVENTS_PER_IMPORT:
                events += [OutboxEvent.build(EventType.PET_CREATED, {"pet": pet.as_json()}) for pet in pets]
        if count > MAX_EVENTS_PER_IMPORT:
            data = {"count": count, "firstId": first_id, "lastId": last_id}
            OutboxEvent.build(EventType.PETS_IMPORTED, data).save()
        else:
            OutboxEvent.objects.bulk_create(events)


class Pet(models.Model):
    name = models.CharField(max_length=NAME_LENGTH)
    category = models.ForeignKey(Category, on_delete=models.PROTECT, related_name="pets", db_index=False)
    status = models.CharField(max_length=9, choices=PetStatus, default=PetStatus.AVAILABLE)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = PetQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        # Only SQLite has the first index, for lists by status (migration 0014). PostgreSQL would scan the
        # primary key instead, which reads the whole table if old pets are sold, so it uses the partial
        # indexes below.
        indexes = [
            models.Index(fields=["status", "id"], name="pet_by_status"),
            models.Index("category", OneFilterKey("id"), name="pet_of_category"),
            # Also serves the index-only scan of the stock count.
            models.Index("category", "status", TwoFilterKey("id"), name="pet_of_category_and_status"),
            models.Index(Folded("name"), "id", name="pet_by_folded_name"),
            *(
                models.Index(fields=["id"], name=f"pet_{status}", condition=Q(status=status))
                for status in PetStatus.values
            ),
        ]
        constraints = [
            models.CheckConstraint(name="pet_name_not_empty", condition=~Q(name="")),
            models.CheckConstraint(name="pet_status_valid", condition=Q(status__in=PetStatus.values)),
        ]

    def __str__(self) -> str:
        return f"{visible_name(self.name)} ({self.pk})"

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "categoryId": self.category_id, "status": self.status}

    def save(self, *args: Any, **options: Any) -> None:
        """Save the pet, with an event if a field of the API's Pet changed.

        Use `change_status` to change the status: `save` does not check the transition.
        """
        with transaction.atomic(savepoint=False):
            pets = Pet.objects.as_json()
            before = pets.select_for_update().filter(pk=self.pk).first()
            super().save(*args, **options)
            after = pets.get(pk=self.pk)
            if after != before:
                event_type = EventType.PET_UPDATED if before else EventType.PET_CREATED
                OutboxEvent.build(event_type, {"pet": after}).save()

    @transaction.atomic
    def change_status(self, to_status: PetStatus, *, by: str, reason: str = "") -> None:
        """Change the status. Raises TransitionError, also if a live order holds the pet.

        To make a pet available that an order sold is to return that order.
        """
        self.refresh_from_db(from_queryset=Pet.objects.select_for_update())
        sale = self.events.first()
        if (self.status, to_status) == (PetStatus.SOLD, PetStatus.AVAILABLE) and sale and sale.order_id:
            # Others lock the order before the pet, so waiting for it could deadlock.
            order = self.orders.select_for_update(skip_locked=True).filter(pk=sale.order_id).first()
            if order is None:
                raise TransitionError(f"Order {sale.order_id} is being changed. Try again.")
            order.return_pet(by=by, reason=reason)
            self.refresh_from_db()
        else:
            self.check_not_held()
            self.transition(to_status, by=by, reason=reason)

    def check_not_held(self) -> None:
        """Raise TransitionError if a live order holds the pet."""
        order = self.orders.filter(inline_values(Q(status__in=LIVE_STATUSES))).first()
        if order is not None:
            raise TransitionError(f"Order {order.pk} holds pet {self.pk}. Cancel or deliver the order.")

    def check_transition(self, to_status: PetStatus, reason: str) -> None:
        """Raise TransitionError unless the transition is allowed."""
        if to_status not in PET_TRANSITIONS[PetStatus(self.status)]:
            raise TransitionError(f"Pet {self.pk} is {self.status}; it can't become {to_status}.")
        if self.status == PetStatus.SOLD and not reason.strip():
            raise TransitionError(f"Pet {self.pk} is sold. To return it to stock, enter a reason.")

    def transition(
        self, to_status: PetStatus, *, by: str, reason: str = "", order_id: int | None = None
    ) -> None:
        """Change the status of the locked row, and record the change. Raises TransitionError."""
        self.check_transition(to_status, reason)
        from_status = self.status
        self.status, self.updated_at = to_status, timezone.now()
        Pet.objects.filter(pk=self.pk).update(status=to_status, updated_at=self.updated_at)
        self.record_change(from_status, by=by, reason=reason, order_id=order_id)

    def record_change(
        self, from_status: str, *, by: str, reason: str = "", order_id: int | None = None
    ) -> None:
        """Insert the history entry and the event. Requires a transaction."""
        change = {"from_status": from_status, "to_status": self.status, "by": by, "reason": reason[:255]}
        event = OutboxEvent.build(EventType.PET_STATUS_CHANGED, {"pet": self.as_json()})
        event.insert_with(PetEvent(pet_id=self.pk, order_id=order_id, **change))

    def delete(self, *args: Any, **options: Any) -> tuple[int, dict[str, int]]:
        """Delete the pet and record an event. Raises ProtectedError if the pet has orders."""
        with transaction.atomic(savepoint=False):
            pet = Pet.objects.as_json().select_for_update().filter(pk=self.pk).first()
            deleted_counts = super().delete(*args, **options)
            if pet is not None:  # Unless a concurrent request has deleted the pet.
                OutboxEvent.build(EventType.PET_DELETED, {"pet": pet}).save()
            return deleted_counts


class StockCount(models.Model):
    """The latest stock count, in a single row."""

    due_at = models.DateTimeField(help_text="When the next count may begin. A worker moves it first.")
    counted_at = models.DateTimeField(null=True)
    took_ms = models.PositiveIntegerField(default=0)
    pets = models.JSONField(default=list, help_text="[category id, status, number of pets] of each.")
    orders_placed = models.BigIntegerField(default=0)
    orders_approved = models.BigIntegerField(default=0, help_text="Including scheduled and shipped orders.")
    orders_scheduled = models.BigIntegerField(default=0, db_default=0)
    orders_shipped = models.BigIntegerField(default=0, db_default=0)
    orders_done = models.BigIntegerField(default=0, db_default=0)  # Delivered or cancelled.
    orders_cancelled = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        constraints = [models.CheckConstraint(name="stock_count_single_row", condition=Q(id=1))]

    def __str__(self) -> str:
        return f"stock at {self.counted_at}"
