"""Statuses of pets and orders, and the allowed transitions."""

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q


class PetStatus(models.TextChoices):
    """PetStatus of the contract."""

    AVAILABLE = "available"
    PENDING = "pending"
    SOLD = "sold"


# D15. Sold to available is a return, which requires a reason.
PET_TRANSITIONS: dict[PetStatus, set[PetStatus]] = {
    PetStatus.AVAILABLE: {PetStatus.PENDING, PetStatus.SOLD},
    PetStatus.PENDING: {PetStatus.AVAILABLE, PetStatus.SOLD},
    PetStatus.SOLD: {PetStatus.AVAILABLE},
}


class OrderStatus(models.TextChoices):
    # D12
    PLACED = "placed"
    APPROVED = "approved"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"


LIVE = (OrderStatus.PLACED, OrderStatus.APPROVED)  # An order in one of these holds its pet.


class Stage(models.TextChoices):
    """The next step of an order in the back office."""

    TO_APPROVE = "to_approve", "To approve"
    TO_SHIP = "to_ship", "To ship"
    SHIPPED = "shipped"
    DONE = "done"

    @property
    def orders(self) -> Q:
        """The condition of a partial index."""
        return STAGES[self]


STAGES = {
    Stage.TO_APPROVE: Q(status=OrderStatus.PLACED),
    Stage.TO_SHIP: Q(status=OrderStatus.APPROVED, ship_date__isnull=True),
    Stage.SHIPPED: Q(status=OrderStatus.APPROVED, ship_date__isnull=False),
    Stage.DONE: Q(status__in=(OrderStatus.DELIVERED, OrderStatus.CANCELLED)),
}

ORDER_TRANSITIONS: dict[str, set[OrderStatus]] = {
    OrderStatus.PLACED: {OrderStatus.APPROVED, OrderStatus.CANCELLED},
    OrderStatus.APPROVED: {OrderStatus.DELIVERED, OrderStatus.CANCELLED},
    OrderStatus.DELIVERED: set(),
    OrderStatus.CANCELLED: set(),
}


class TransitionError(ValidationError):
    """The status of a pet or an order does not allow the change. The message is for staff."""
