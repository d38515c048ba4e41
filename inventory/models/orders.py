"""Orders. An order and its pet change status in the same transaction."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import models, transaction
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.utils import timezone

from accounts.models import EventType, OutboxEvent
from inventory.models.pets import Pet, StatusChange
from inventory.status import (
    INDEX_CONDITIONS,
    LIVE_STATUSES,
    ORDER_TRANSITIONS,
    OrderStatus,
    PetStatus,
    Stage,
    TransitionError,
)
from petstore.db.keysets import OneFilterKey, TwoFilterKey


class OrderEvent(StatusChange):
    order = models.ForeignKey("inventory.Order", on_delete=models.CASCADE, related_name="events")

    def __str__(self) -> str:
        if self.from_status != self.to_status:
            return str(OrderStatus(self.to_status).label)
        return Stage.RETURNED.label if self.to_status == OrderStatus.DELIVERED else "Ship date set"


class OrderQuerySet(QuerySet["Order"]):
    def as_json(self) -> QuerySet[Order, Any]:
        """Select the fields of the contract's Order (D12) as dicts."""
        rows = self.annotate(
            petId=F("pet_id"),
            quantity=Value(1),
            shipDate=F("ship_date"),
            complete=Case(When(status=OrderStatus.DELIVERED, then=True), default=False),
        )
        return rows.values("id", "petId", "quantity", "status", "shipDate", "complete")

    def newest_first(self) -> QuerySet[Order]:
        """Sort the orders of one account. Uses the index `order_of_account`."""
        return self.alias(key=OneFilterKey("id")).order_by("-key")

    @transaction.atomic
    def place(self, *, account_id: int, pet_id: int, by: str, **values: Any) -> Order:
        """Order an available pet and set it to pending. Of concurrent buyers exactly one wins (D14).

        Raises Pet.DoesNotExist, or TransitionError for a pet that is not available.
        """
        pet = Pet.objects.select_for_update().get(pk=pet_id)
        if pet.status != PetStatus.AVAILABLE:
            raise TransitionError(f"Pet {pet_id} is not available.")
        order = self.create(account_id=account_id, pet_id=pet_id, **values)
        order.record_change("", by=by, event_type=EventType.ORDER_PLACED)
        pet.transition(PetStatus.PENDING, by=by, order_id=order.pk)
        return order


class Order(models.Model):
    """One account's order of one pet (D15)."""

    account = models.ForeignKey(
        "accounts.Account", on_delete=models.PROTECT, related_name="orders", db_index=False
    )
    pet = models.ForeignKey(Pet, on_delete=models.PROTECT, related_name="orders")
    status = models.CharField("API status", max_length=9, choices=OrderStatus, default=OrderStatus.PLACED)
    ship_date = models.DateTimeField(null=True, blank=True)
    returned_at = models.DateTimeField("returned", null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = OrderQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index("account", OneFilterKey("id"), name="order_of_account"),
            models.Index("account", "status", TwoFilterKey("id"), name="order_of_account_and_status"),
            models.Index("status", OneFilterKey("id"), name="order_of_status"),
            models.Index(
                "account",
                TwoFilterKey("id"),
                name="returned_order_of_account",
                condition=INDEX_CONDITIONS[Stage.RETURNED],
            ),
            *(
                models.Index(fields=["id"], name=f"order_{stage}", condition=condition)
                for stage, condition in INDEX_CONDITIONS.items()
            ),
            models.Index(fields=["created_at"], name="order_by_time"),
        ]
        constraints = [
            models.UniqueConstraint(
                name="unique_live_order_per_pet", fields=["pet"], condition=Q(status__in=LIVE_STATUSES)
            ),
            models.CheckConstraint(name="order_status_valid", condition=Q(status__in=OrderStatus.values)),
            models.CheckConstraint(
                name="order_ship_date_needs_approval",
                condition=Q(ship_date__isnull=True) | ~Q(status=OrderStatus.PLACED),
            ),
        ]

    def __str__(self) -> str:
        return f"order {self.pk}"

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "petId": self.pet_id,
            "quantity": 1,
            "status": self.status,
            "shipDate": self.ship_date,
            "complete": self.status == OrderStatus.DELIVERED,
        }

    @property
    def stage(self) -> Stage:
        if self.returned_at is not None:
            return Stage.RETURNED
        if self.status != OrderStatus.APPROVED:
            return Stage.TO_APPROVE if self.status == OrderStatus.PLACED else Stage(self.status)
        if self.ship_date is None:
            return Stage.TO_SHIP
        return Stage.SHIPPED if self.ship_date <= timezone.now() else Stage.SCHEDULED

    @transaction.atomic
    def approve(self, *, by: str, reason: str = "") -> None:
        self._lock()
        self._transition(OrderStatus.APPROVED, by=by, reason=reason)

    @transaction.atomic
    def ship(self, *, by: str, ship_date: datetime | None = None) -> None:
        """Set the ship date, by default to now.

        Raises TransitionError unless the order is approved. Only an explicit date replaces an earlier one.
        """
        self._lock()
        if self.status != OrderStatus.APPROVED:
            raise TransitionError(
                f"Order {self.pk} is {self.status}. Only an approved order can be shipped."
            )
        if ship_date is None and self.ship_date is not None:
            raise TransitionError(
                f"Order {self.pk} already has a ship date. To change it, enter a new one."
            )
        self.ship_date = (ship_date or timezone.now()).astimezone(UTC)
        self.save(update_fields=["ship_date", "updated_at"])
        reason = f"Ships {self.ship_date:%Y-%m-%d %H:%M} UTC."
        self.record_change(self.status, by=by, reason=reason, event_type=EventType.ORDER_SHIPPED)

    @transaction.atomic
    def deliver(self, *, by: str, reason: str = "") -> None:
        """Deliver the order, and mark its pet as sold. Raises TransitionError."""
        self._lock()
        self._transition(OrderStatus.DELIVERED, by=by, reason=reason, pet_status=PetStatus.SOLD)

    @transaction.atomic
    def return_pet(self, *, by: str, reason: str) -> None:
        """Make the pet available again (D15). The API status stays delivered, which is final.

        Raises TransitionError unless the pet is sold, and by this order.
        """
        self._lock()
        pet = Pet.objects.select_for_update().get(pk=self.pet_id)
        sale = pet.events.first()
        is_sold_by_this = sale is not None and sale.order_id == self.pk
        if self.stage != Stage.DELIVERED or not is_sold_by_this:
            raise TransitionError(f"The pet of order {self.pk} was returned or has changed since.")
        pet.transition(PetStatus.AVAILABLE, by=by, reason=reason, order_id=self.pk)
        self.returned_at = timezone.now()
        self.save(update_fields=["returned_at", "updated_at"])
        self.record_change(self.status, by=by, reason=reason, event_type=EventType.ORDER_RETURNED)

    @transaction.atomic
    def cancel(self, *, by: str, reason: str = "", only_placed: bool = False) -> None:
        """Cancel the order, and make its pet available. Idempotent. Raises TransitionError.

        With `only_placed`, an approved order is rejected: only staff may cancel it.
        """
        self._lock()
        if only_placed and self.status == OrderStatus.APPROVED:
            raise TransitionError(f"Order {self.pk} is approved; only staff can cancel it.")
        if self.status != OrderStatus.CANCELLED:
            self._transition(OrderStatus.CANCELLED, by=by, reason=reason, pet_status=PetStatus.AVAILABLE)

    def _lock(self) -> None:
        """Lock and read the row. Raises Order.DoesNotExist, also if it belongs to another account."""
        own = Order.objects.filter(account_id=self.account_id)
        self.refresh_from_db(from_queryset=own.select_for_update())

    def _transition(
        self, to_status: OrderStatus, *, by: str, reason: str, pet_status: PetStatus | None = None
    ) -> None:
        """Change the status of the locked order and of its pet, and record the changes."""
        if to_status not in ORDER_TRANSITIONS[self.status]:
            raise TransitionError(f"Order {self.pk} is {self.status}; it can't become {to_status}.")
        from_status = self.status
        self.status = to_status
        self.save(update_fields=["status", "updated_at"])
        self.record_change(from_status, by=by, reason=reason, event_type=EventType(f"order.{to_status}"))
        if pet_status is not None:
            pet = Pet.objects.select_for_update().get(pk=self.pet_id)
            pet.transition(pet_status, by=by, reason=reason, order_id=self.pk)

    def record_change(self, from_status: str, *, by: str, reason: str = "", event_type: EventType) -> None:
        """Insert the history entry and the event. Requires a transaction."""
        change = {"from_status": from_status, "to_status": self.status, "by": by, "reason": reason[:255]}
        event = OutboxEvent.build(event_type, {"order": self.as_json()}, self.account_id)
        event.insert_with(OrderEvent(order_id=self.pk, **change))
