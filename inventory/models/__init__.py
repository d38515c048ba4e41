"""What the shop keeps and sells: categories, pets and orders, with their legal moves."""

from inventory.models.orders import Order, OrderEvent, OrderQuerySet
from inventory.models.pets import Category, Pet, PetEvent, PetQuerySet, StockCount
from inventory.models.uploads import PetUpload
from inventory.status import LIVE, ORDER_MOVES, PET_MOVES, IllegalMoveError, OrderStatus, PetStatus, Stage
from petstore.db.names import NAME_LENGTH

__all__ = [
    "LIVE",
    "NAME_LENGTH",
    "ORDER_MOVES",
    "PET_MOVES",
    "Category",
    "IllegalMoveError",
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
]
