"""Categories, pets, orders and their history."""

from inventory.models.orders import Order, OrderEvent, OrderQuerySet
from inventory.models.pets import Category, Pet, PetEvent, PetQuerySet, StockCount
from inventory.models.uploads import PetUpload
from inventory.status import (
    LIVE_STATUSES,
    ORDER_TRANSITIONS,
    PET_TRANSITIONS,
    OrderStatus,
    PetStatus,
    Stage,
    TransitionError,
)
from petstore.db.names import NAME_LENGTH

__all__ = [
    "LIVE_STATUSES",
    "NAME_LENGTH",
    "ORDER_TRANSITIONS",
    "PET_TRANSITIONS",
    "Category",
    "Order",
    "OrderEvent",
    "OrderQuerySet",
    "OrderStatus",
    "Pet",
    "PetEvent",
    "PetQuerySet",
    "PetStatus",
    "PetUpload",
    "Stage",
    "StockCount",
    "TransitionError",
]
