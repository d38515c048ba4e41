"""The API's compiled reads, and the filters of its lists."""

from inventory.models import Category, Order, OrderStatus, Pet, PetStatus
from petstore.api.query_params import Filter, Filters, IdsFilter
from petstore.db.event_loop.compiled_reads import Read

CATEGORIES = Read(Category, lambda: Category.objects.values("id", "name", "description"))

PETS = Read(Pet, Pet.objects.as_json)
PET_FILTERS: Filters = (
    Filter("status", "Return only pets with this status.", "status", PetStatus),
    Filter("categoryId", "Return only pets of this category.", "category_id"),  # D44
    IdsFilter("ids", "Return only pets with these ids, separated by commas. Unknown ids are left out."),
)

ORDERS = Read(Order, Order.objects.as_json)
ORDER_FILTERS: Filters = (Filter("status", "Return only orders with this status.", "status", OrderStatus),)
