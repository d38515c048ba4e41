"""Orders, and the one way to place one; each moves together with its pet."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import models
from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.models import EventDraft, EventType
from inventory import members
from inventory.models.pets import Event, Pet
from inventory.status import LIVE, ORDER_MOVES, IllegalMoveError, OrderStatus, PetStatus, Stage
from petstore.db.keysets import OneFilterKey, TwoFilterKey
from petstore.event_loop.compiled_writes import atomic, insert, refresh, update, update_one


class OrderEvent(Event):
    order = models.ForeignKey("inventory.Order", on_delete=models.CASCADE, related_name="events")


class OrderQuerySet(QuerySet["Order"]):
    """Reads of orders, and the one way to make one."""

    def as_json(self) -> QuerySet[Order, Any]:
        """Return rows as the API's Order (D12)."""
        return members.ORDER.values(self)

    def newest_first(self) -> QuerySet[Order]:
        """Return the orders of one account, in the order of the index that has them together."""
        return self.alias(key=OneFilterKey("id")).order_by("-key")

    @atomic
    def place(self, *, account_id: int, pet_id: int, by: str, **values: Any) -> Order:
        """Order a pet: it goes from available to pending, for exactly one of any number of buyers (D14).

        `values`: what else the client says of the order. Raises Pet.DoesNotExist, or IllegalMoveError for a
        pet that is not available.
        """
        # The update decides who wins: whoever comes second waits for the row, and finds it pending.
        available = {"pk": pet_id, "status": PetStatus.AVAILABLE}
        moved = {"status": PetStatus.PENDING, "updated_at": timezone.now()}
        pet = update_one(Pet, available, **moved)
        if pet is None:
            refresh(Pet(pk=pet_id))  # It may not be there at all.
            raise IllegalMoveError(f"Pet {pet_id} is not available.")
        order = insert(Order(account_id=account_id, pet_id=pet_id, **values))
        order.record_change("", by=by, kind=EventType.ORDER_PLACED)
        pet.record_change(PetStatus.AVAILABLE, by=by, order_id=order.pk)
        return order


class Order(models.Model):
    """One account's order of one pet; moves together with it, in one transaction (D15)."""

    account = models.ForeignKey(
        "accounts.Account", on_delete=models.PROTECT, related_name="orders", db_index=False
    )
    pet = models.ForeignKey(Pet, on_delete=models.PROTECT, related_name="orders")
    status = models.CharField(max_length=9, choices=OrderStatus, default=OrderStatus.PLACED)
    ship_date = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = OrderQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index("account", OneFilterKey("id"), name="order_of_account"),
            models.Index("account", "status", TwoFilterKey("id"), name="order_of_account_and_status"),
            models.Index("status", OneFilterKey("id"), name="order_of_status"),
            *(
                models.Index(fields=["id"], name=f"order_{stage}", condition=stage.orders)
                for stage in Stage
            ),
            models.Index(fields=["created_at"], name="order_by_time"),
        ]
        constraints = [
            models.UniqueConstraint(
                name="one_live_order_for_a_pet", fields=["pet"], condition=Q(status__in=LIVE)
            ),
            models.CheckConstraint(
                name="order_status_is_known", condition=Q(status__in=OrderStatus.values)
            ),
            models.CheckConstraint(
                name="order_ships_once_approved",
                condition=Q(ship_date__isnull=True) | ~Q(status=OrderStatus.PLACED),
            ),
        ]

    def __str__(self) -> str:
        return f"order {self.pk}"

    def as_json(self) -> dict[str, Any]:
        """Return the API's Order, as `OrderQuerySet.as_json` reads it."""
        return members.ORDER.as_json(self)

    def approve(self, *, by: str, reason: str = "") -> None:
        """Accept the order. Raises IllegalMoveError."""
        self._move(OrderStatus.APPROVED, by=by, reason=reason)

    @atomic
    def ship(self, *, by: str, ship_date: datetime | None = None) -> None:
        """Note when the pet leaves, by default now.

        Raises IllegalMoveError unless the order is approved; without a date, if it has one already.
        """
        refresh(self, lock=True)
        if self.status != OrderStatus.APPROVED:
            raise IllegalMoveError(f"Order {self.pk} is {self.status}; only an approved one ships.")
        if ship_date is None and self.ship_date is not None:
            raise IllegalMoveError(f"Order {self.pk} has a ship date. To change it, say the new one.")
        self.ship_date, self.updated_at = (ship_date or timezone.now()).astimezone(UTC), timezone.now()
        update(Order, {"pk": self.pk}, wait=False, ship_date=self.ship_date, updated_at=self.updated_at)
        reason = f"Ships {self.ship_date:%Y-%m-%d %H:%M} UTC."
        self.record_change(self.status, by=by, reason=reason, kind=EventType.ORDER_SHIPPED)

    def deliver(self, *, by: str, reason: str = "") -> None:
        """Hand the pet over: it is sold. Raises IllegalMoveError."""
        self._move(OrderStatus.DELIVERED, by=by, reason=reason, pet_to=PetStatus.SOLD)

    @atomic
    def cancel(self, *, by: str, reason: str = "", only_placed: bool = False) -> None:
        """Release the pet; doing it twice changes nothing. Raises IllegalMoveError.

        `only_placed`: as a client may, who can't cancel what is approved.
        """
        refresh(self, lock=True)
        if only_placed and self.status == OrderStatus.APPROVED:
            raise IllegalMoveError(f"Order {self.pk} is approved; the shop alone can cancel it.")
        if self.status != OrderStatus.CANCELLED:
            self._go(OrderStatus.CANCELLED, by=by, reason=reason, pet_to=PetStatus.AVAILABLE)

    @atomic
    def _move(self, to: OrderStatus, *, by: str, reason: str, pet_to: PetStatus | None = None) -> None:
        """Move the order, and its pet where the move changes it, in one transaction."""
        refresh(self, lock=True)
        self._go(to, by=by, reason=reason, pet_to=pet_to)

    def _go(self, to: OrderStatus, *, by: str, reason: str, pet_to: PetStatus | None) -> None:
        """Take a legal step, and record it; the row is locked."""
        if to not in ORDER_MOVES[self.status]:
            raise IllegalMoveError(f"Order {self.pk} is {self.status}; it can't become {to}.")
        pet = Pet(pk=self.pet_id)
        if pet_to is not None:
            refresh(pet, lock=True)
            pet.check_move(pet_to, reason)
        before, self.status, self.updated_at = self.status, to, timezone.now()
        update(Order, {"pk": self.pk}, wait=False, status=to, updated_at=self.updated_at)
        self.record_change(before, by=by, reason=reason, kind=EventType(f"order.{to}"))
        if pet_to is not None:
            pet.step(pet_to, by=by, reason=reason, order_id=self.pk)

    def record_change(self, from_status: str, *, by: str, reason: str = "", kind: EventType) -> None:
        """Insert the history entry and the event of a change that is made; under `atomic` only."""
        change = {"from_status": from_status, "to_status": self.status, "by": by, "reason": reason[:255]}
        insert(OrderEvent(order_id=self.pk, **change), wait=False)
        insert(EventDraft.of(kind, {"order": self.as_json()}, self.account_id), wait=False)
