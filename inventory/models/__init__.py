"""Categories, pets, orders and their history, the stock count and uploads."""

from inventory.models.orders import Order, OrderEvent
from inventory.models.pets import Category, Pet, PetEvent, PetQuerySet, StockCount
from inventory.models.uploads import PetUpload
from inventory.status import LIVE_STATUSES, OrderStatus, PetStatus, Stage, TransitionError
