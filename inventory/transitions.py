"""Where pets and orders stand, and where they may go from there."""

from django.core.exceptions import ValidationError
from django.db import models


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

ORDER_MOVES: dict[str, set[OrderStatus]] = {
    OrderStatus.PLACED: {OrderStatus.APPROVED, OrderStatus.CANCELLED},
    OrderStatus.APPROVED: {OrderStatus.DELIVERED, OrderStatus.CANCELLED},
    OrderStatus.DELIVERED: set(),
    OrderStatus.CANCELLED: set(),
}


class IllegalMoveError(ValidationError):
    """A pet or an order can't go where somebody wants it; the message says why, and what can be done."""
