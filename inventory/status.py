"""Where pets and orders stand, and where they may go from there."""

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q


class PetStatus(models.TextChoices):
    """The contract's PetStatus."""

    AVAILABLE = "available"
    PENDING = "pending"
    SOLD = "sold"


# What staff and orders may make of a pet (D15). Sold to available is a return, which needs a reason.
PET_MOVES: dict[PetStatus, set[PetStatus]] = {
    PetStatus.AVAILABLE: {PetStatus.PENDING, PetStatus.SOLD},
    PetStatus.PENDING: {PetStatus.AVAILABLE, PetStatus.SOLD},
    PetStatus.SOLD: {PetStatus.AVAILABLE},
}


class OrderStatus(models.TextChoices):
    """Where an order stands (D12)."""

    PLACED = "placed"
    APPROVED = "approved"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"


LIVE = (OrderStatus.PLACED, OrderStatus.APPROVED)  # Orders that hold their pet.


class Stage(models.TextChoices):
    """What is next for an order."""

    TO_APPROVE = "to_approve", "To approve"
    TO_SHIP = "to_ship", "To ship"
    SHIPPED = "shipped"
    DONE = "done"

    @property
    def orders(self) -> Q:
        """Return the condition for its orders. Each has an index of their ids."""
        return STAGES[self]


STAGES = {
    Stage.TO_APPROVE: Q(status=OrderStatus.PLACED),
    Stage.TO_SHIP: Q(status=OrderStatus.APPROVED, ship_date__isnull=True),
    Stage.SHIPPED: Q(status=OrderStatus.APPROVED, ship_date__isnull=False),
    Stage.DONE: Q(status__in=(OrderStatus.DELIVERED, OrderStatus.CANCELLED)),
}

ORDER_MOVES: dict[str, set[OrderStatus]] = {
    OrderStatus.PLACED: {OrderStatus.APPROVED, OrderStatus.CANCELLED},
    OrderStatus.APPROVED: {OrderStatus.DELIVERED, OrderStatus.CANCELLED},
    OrderStatus.DELIVERED: set(),
    OrderStatus.CANCELLED: set(),
}


class IllegalMoveError(ValidationError):
    """A pet or an order can't go where somebody wants it; the message says why, and what can be done."""
