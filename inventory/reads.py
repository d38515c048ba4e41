"""What the API reads, in the contract's shapes."""

from inventory.models import Category, Order, Pet
from inventory.models.keysets import OneFilterKey, TwoFilterKey
from petstore.loop.compiled_reads import Read

CATEGORIES = Read(Category, lambda: Category.objects.values("id", "name", "description"))
PETS = Read(Pet, Pet.objects.as_json)
ORDERS = Read(
    Order,
    Order.objects.as_json,
    keys={("account_id",): OneFilterKey("id"), ("account_id", "status"): TwoFilterKey("id")},
)
