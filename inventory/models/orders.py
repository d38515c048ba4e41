"""Orders, and the one way to place one; each moves together with its pet."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import models
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.utils import timezone

from accounts.models import EventDraft, EventType
from inventory.models.pets import Event, Pet, PetEvent
from inventory.transitions import (
    LIVE,
    ORDER_MOVES,
    IllegalMoveError,
    OrderStatus,
    PetStatus,
    Stage,
)
from petstore.db.keysets import OneFilterKey, TwoFilterKey
from petstore.loop.compiled_writes import atomic, refresh, update, update_one
from petstore.loop.linked_inserts import KEY, Move, insert_with, may_share_commits, try_move_with


class OrderEvent(Event):
    order = models.ForeignKey("inventory.Order", on_delete=models.CASCADE, related_name="events")


class OrderQuerySet(QuerySet["Order"]):
    """Reads of orders, and the one way to make one."""

    def as_json(self) -> QuerySet[Order, Any]:
        """Return rows as the API's Order (D12)."""
        renamed = self.annotate(
            petId=F("pet_id"),
            quantity=Value(1),
            shipDate=F("ship_date"),
            complete=Case(When(status=OrderStatus.DELIVERED, then=True), default=False),
        )
        return renamed.values("id", "petId", "quantity", "status", "shipDate", "complete")

    def newest_first(self) -> QuerySet[Order]:
        """Return the orders of one account, in the order of the index that has them together."""
        return self.alias(key=OneFilterKey("id")).order_by("-key")

    def place(self, *, account_id: int, pet_id: int, by: str) -> Order:
        """Order a pet: it goes from available to pending, for exactly one of any number of buyers (D14).

        Raises Pet.DoesNotExist, or IllegalMoveError for a pet that is not available.
        """
        at_once = self.place_at_once(account_id, pet_id, by)
        return at_once or self.place_in_turn(account_id, pet_id, by)

    def place_at_once(self, account_id: int, pet_id: int, by: str) -> Order | None:
        """Place as one statement. None: nothing was done, for whatever reason."""
        pet = Pet.seen(pet_id) if may_share_commits() else None
        if pet is None or pet.status != PetStatus.AVAILABLE:
            return None
        order = Order(account_id=account_id, pet_id=pet_id)
        move = pet.seen_to(PetStatus.PENDING)
        return order if try_move_with([move], order, *order.placed_with(pet, by)) else None

    @atomic
    def place_in_turn(self, account_id: int, pet_id: int, by: str) -> Order:
        """Place in a transaction that waits for others. Raises as `place` does."""
        # The update decides who wins: whoever comes second waits for the row, and finds it pending.
        available = {"pk": pet_id, "status": PetStatus.AVAILABLE}
        moved = {"status": PetStatus.PENDING, "updated_at": timezone.now()}
        shown = update_one(Pet, available, ["name", "category"], **moved)
        if shown is None:
            refresh(Pet(pk=pet_id))  # It may not be there at all.
            raise IllegalMoveError(f"Pet {pet_id} is not available.")
        pet = Pet(pk=pet_id, name=shown[0], category_id=shown[1], **moved)
        order = Order(account_id=account_id, pet_id=pet_id)
        insert_with(order, *order.placed_with(pet, by))
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
        return {
            "id": self.pk,
            "petId": self.pet_id,
            "quantity": 1,
            "status": self.status,
            "shipDate": self.ship_date,
            "complete": self.status == OrderStatus.DELIVERED,
        }

    def placed_with(self, pet: Pet, by: str) -> list[models.Model]:
        """Return what is to be written with an order that is new, of a pet that is pending by now."""
        of_pet = {"from_status": PetStatus.AVAILABLE, "to_status": PetStatus.PENDING, "by": by}
        shown = {"order": self.as_json() | {"id": KEY}}
        return [
            OrderEvent(order_id=KEY, to_status=OrderStatus.PLACED, by=by),
            PetEvent(pet_id=pet.pk, order_id=KEY, **of_pet),
            EventDraft.of_new(EventType.ORDER_PLACED, shown, self.account_id),
            pet.status_changed(),
        ]

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
        step = self.step(self.status, self.status, by=by, reason=reason)
        insert_with(step, self.event(EventType.ORDER_SHIPPED), wait=False)

    def deliver(self, *, by: str, reason: str = "") -> None:
        """Hand the pet over: it is sold. Raises IllegalMoveError."""
        self._move(OrderStatus.DELIVERED, by=by, reason=reason, pet_to=PetStatus.SOLD)

    def cancel(self, *, by: str, reason: str = "", only_placed: bool = False) -> None:
        """Release the pet; doing it twice changes nothing. Raises IllegalMoveError.

        `only_placed`: as a client may, who can't cancel what is approved.
        """
        if not self.cancel_at_once(by, reason):
            self.cancel_in_turn(by=by, reason=reason, only_placed=only_placed)

    def cancel_at_once(self, by: str, reason: str) -> bool:
        """Cancel an order that was just read, as one statement. False: nothing was done, for any reason."""
        placed = self.pet_id is not None and self.status == OrderStatus.PLACED
        pet = Pet.seen(self.pet_id) if placed and may_share_commits() else None
        if pet is None or pet.status != PetStatus.PENDING:
            return False
        read = {"status": self.status, "pet": self.pet_id, "account": self.account_id}
        self.status, self.updated_at = OrderStatus.CANCELLED, timezone.now()
        to = {"status": self.status, "updated_at": self.updated_at}
        moves = [Move(Order, self.pk, read, to), pet.seen_to(PetStatus.AVAILABLE)]
        of_pet = pet.stepped(PetStatus.PENDING, by=by, reason=reason, order_id=self.pk)
        step = self.step(OrderStatus.PLACED, self.status, by=by, reason=reason)
        return try_move_with(moves, step, self.event(EventType.ORDER_CANCELLED), *of_pet)

    @atomic
    def cancel_in_turn(self, *, by: str, reason: str, only_placed: bool) -> None:
        """Cancel in a transaction that waits for others. Raises as `cancel` does."""
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
        step = self.step(self.status, to, by=by, reason=reason)
        of_pet: list[models.Model] = []
        if pet_to is not None:
            pet = Pet(pk=self.pet_id)
            refresh(pet, lock=True)
            of_pet = pet.step(pet_to, by=by, reason=reason, order_id=self.pk)
        self.status, self.updated_at = to, timezone.now()
        update(Order, {"pk": self.pk}, wait=False, status=to, updated_at=self.updated_at)
        insert_with(step, self.event(EventType(f"order.{to}")), *of_pet, wait=False)

    def step(self, from_status: str, to_status: str, *, by: str, reason: str) -> OrderEvent:
        """Return what is to be written of a step."""
        step = {"from_status": from_status, "to_status": to_status, "by": by, "reason": reason[:255]}
        return OrderEvent(order_id=self.pk, **step)

    def event(self, kind: EventType) -> EventDraft:
        return EventDraft.of(kind, {"order": self.as_json()}, self.account_id)
