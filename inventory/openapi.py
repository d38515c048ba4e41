"""OpenAPI documentation of the inventory that drf-spectacular cannot infer.

Imported only when the document is built, because drf-spectacular is slow to import.
"""

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.utils import OpenApiParameter, OpenApiRequest

from accounts.models import EventType
from accounts.openapi import EVENT_EXAMPLES
from inventory import serializers
from inventory.serializer_fields import CategoryIdField
from inventory.views import CategoryViewSet, OrderViewSet, PetBatchViewSet, PetViewSet
from petstore.api import int64
from petstore.api.errors import ErrorCode as Code
from petstore.api.openapi.operations import (
    build_examples,
    build_list_operation,
    build_operation,
    describe_operations,
)
from petstore.db.names import NAME_LENGTH

# The characters that str.strip() removes. `\s` differs between Python, ECMAScript and Rust.
BLANKS = r"\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


class TextFieldExtension(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "inventory.serializer_fields.TextField"

    def map_serializer_field(self, auto_schema: Any, direction: str) -> dict[str, Any]:
        # At least one non-blank character, and no NUL.
        pattern = rf"^[^\u0000]*[^\u0000{BLANKS}][^\u0000]*$"
        return {"type": "string", "minLength": 1, "maxLength": NAME_LENGTH, "pattern": pattern}


class Int64FieldExtension(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "inventory.serializer_fields.Int64Field"
    match_subclasses = True

    def map_serializer_field(self, auto_schema: Any, direction: str) -> dict[str, Any]:
        return int64.SCHEMA


CATEGORIES = [
    {"id": 1, "name": "Dogs", "description": "Dogs of every size."},
    {"id": 2, "name": "Cats", "description": "Cats, indoor and outdoor."},
]
PET = {"id": 1, "name": "Biscuit", "categoryId": 1, "status": "available"}
PETS = [PET, PET | {"id": 2, "name": "Marble", "categoryId": 2}]
NEW_PETS = {
    "Request": ("Only the required fields.", {"name": "Biscuit", "categoryId": 1}),
    "RequestWithStatus": ("A reserved pet.", {"name": "Marble", "categoryId": 2, "status": "pending"}),
}
NEW_PET_BATCHES = {
    "Request": (
        "Two pets.",
        {"pets": [{"name": "Biscuit", "categoryId": 1}, {"name": "Marble", "categoryId": 2}]},
    )
}
NEW_ORDERS = {"Request": ("A pet.", {"petId": 1})}
ORDER = {"id": 1, "petId": 1, "quantity": 1, "status": "placed", "shipDate": None, "complete": False}
DELIVERED = ORDER | {"status": "delivered", "shipDate": "2026-03-02T09:30:00Z", "complete": True}
ORDERS = [DELIVERED, ORDER | {"id": 4, "petId": 7}]
APPROVED = ORDER | {"status": "approved"}
SHIPPED = APPROVED | {"shipDate": "2026-11-24T09:30:00Z"}
EVENT_DATA = {
    EventType.PET_CREATED: {"pet": PET},
    EventType.PET_UPDATED: {"pet": PET},
    EventType.PET_STATUS_CHANGED: {"pet": PET | {"status": "pending"}},
    EventType.PET_DELETED: {"pet": PET},
    EventType.PETS_IMPORTED: {"count": 1_200, "firstId": 301, "lastId": 1_500},
    EventType.ORDER_PLACED: {"order": ORDER},
    EventType.ORDER_APPROVED: {"order": APPROVED},
    EventType.ORDER_SHIPPED: {"order": SHIPPED},
    EventType.ORDER_DELIVERED: {"order": SHIPPED | {"status": "delivered", "complete": True}},
    EventType.ORDER_RETURNED: {"order": SHIPPED | {"status": "delivered", "complete": True}},
    EventType.ORDER_CANCELLED: {"order": ORDER | {"status": "cancelled"}},
}
for event_type, data in EVENT_DATA.items():
    EVENT_EXAMPLES[event_type]["data"] = data

RETRYABLE = "With an `Idempotency-Key`, the request is safe to retry."
REQUIRED = "This field is required."
UNKNOWN_CATEGORY = str(CategoryIdField.default_error_messages["unknown_category"])
NEW_PET_ID = {"petId": "$response.body#/id"}
NEW_ORDER_ID = {"orderId": "$response.body#/id"}
PET_ID = OpenApiParameter("petId", int, OpenApiParameter.PATH, description="Identifier of the pet.")
ORDER_ID = OpenApiParameter("orderId", int, OpenApiParameter.PATH, description="Identifier of the order.")

PETS_OPERATIONS = {
    "list": build_list_operation(
        "listPets",
        "pets",
        "Returns pets by ascending id. The filters select a status, a category, or up to 100 ids.",
        serializers.PetSerializer,
        ("Two pets.", PETS),
    ),
    "create": build_operation(
        "createPet",
        "Add a pet",
        f"Adds a pet to a category. The service assigns its id. {RETRYABLE}",
        request=OpenApiRequest(serializers.NewPetSerializer, examples=build_examples(NEW_PETS)),
        response=(201, serializers.PetSerializer, "The new pet."),
        examples={"Response": ("The new pet.", PET)},
        errors=[Code.UNKNOWN_CATEGORY],
        error_examples=[
            (Code.MISSING_FIELD, "categoryId", REQUIRED),
            (Code.INVALID_FIELD, "name", "Must be a string."),
            (Code.UNKNOWN_CATEGORY, "categoryId", UNKNOWN_CATEGORY),
        ],
        links={
            "getPet": {"parameters": NEW_PET_ID, "description": "Gets the new pet."},
            # In OpenAPI 3.0, the `requestBody` of a link can't have expressions inside an object.
            "placeOrder": {
                "description": "Orders the new pet: send its `id` as `petId`.",
                "x-request-body": NEW_PET_ID,
            },
        },
    ),
    "retrieve": build_operation(
        "getPet",
        "Get a pet",
        "Returns one pet. This operation is deprecated and will be removed on 2030-12-05. Use `listPets` "
        "with the filter `ids` instead.",
        parameters=[PET_ID],
        response=(200, serializers.PetSerializer, "The pet."),
        examples={"Response": ("A pet.", PET)},
        errors=[Code.PET_NOT_FOUND, Code.ENDPOINT_REMOVED],
        deprecated=True,
    ),
}

PET_BATCH_OPERATIONS = {
    "create": build_operation(
        "createPets",
        "Add several pets",
        "Adds up to 100 pets, all or none, and returns them in the same order. It counts as one request. "
        f"{RETRYABLE}",
        request=OpenApiRequest(serializers.NewPetsSerializer, examples=build_examples(NEW_PET_BATCHES)),
        response=(201, serializers.PetSerializer(many=True), "The new pets."),
        examples={"Response": ("Two new pets.", PETS)},
        errors=[Code.UNKNOWN_CATEGORY],
        error_examples=[
            (Code.MISSING_FIELD, "pets", REQUIRED),
            (Code.INVALID_FIELD, "pets", "Must have 1 to 100 pets."),
            (Code.UNKNOWN_CATEGORY, "categoryId", UNKNOWN_CATEGORY),
        ],
    ),
}

CATEGORIES_OPERATIONS = {
    "list": build_list_operation(
        "listCategories",
        "categories",
        "Returns categories by ascending id.",
        serializers.CategorySerializer,
        ("Two categories.", CATEGORIES),
    )
}

ORDERS_OPERATIONS = {
    "list": build_list_operation(
        "listOrders",
        "orders",
        "Returns the orders of your account by ascending id. The filter selects one status.",
        serializers.OrderSerializer,
        ("A delivered and a new order.", ORDERS),
    ),
    "create": build_operation(
        "placeOrder",
        "Order a pet",
        "Orders an available pet, which becomes pending. If several clients order a pet at the same time, "
        f"exactly one of them gets it. {RETRYABLE}",
        request=OpenApiRequest(serializers.NewOrderSerializer, examples=build_examples(NEW_ORDERS)),
        response=(201, serializers.OrderSerializer, "The new order."),
        examples={"Response": ("The new order.", ORDER)},
        errors=[Code.PET_NOT_FOUND, Code.PET_NOT_AVAILABLE],
        error_examples=[
            (Code.MISSING_FIELD, "petId", REQUIRED),
            (Code.INVALID_FIELD, "petId", "Must be an integer from -2^63 to 2^63 - 1."),
        ],
        links={
            "getOrder": {"parameters": NEW_ORDER_ID, "description": "Gets the new order."},
            "cancelOrder": {
                "parameters": NEW_ORDER_ID,
                "description": "Cancels the new order, unless staff have already approved it.",
            },
        },
    ),
    "retrieve": build_operation(
        "getOrder",
        "Get an order",
        "Returns one order of your account.",
        parameters=[ORDER_ID],
        response=(200, serializers.OrderSerializer, "The order."),
        examples={"New": ("A new order.", ORDER), "Delivered": ("A delivered order.", DELIVERED)},
        errors=[Code.ORDER_NOT_FOUND],
    ),
    "destroy": build_operation(
        "cancelOrder",
        "Cancel an order",
        "Cancels an order of your account that is not approved yet. Its pet becomes available again. "
        "Cancelling the order a second time changes nothing.",
        parameters=[ORDER_ID],
        response=(204, None, "The order is cancelled."),
        errors=[Code.ORDER_NOT_FOUND, Code.ORDER_NOT_CANCELLABLE],
    ),
}

describe_operations(PetViewSet, "pets", PETS_OPERATIONS)
describe_operations(PetBatchViewSet, "pets", PET_BATCH_OPERATIONS)
describe_operations(CategoryViewSet, "categories", CATEGORIES_OPERATIONS)
describe_operations(OrderViewSet, "orders", ORDERS_OPERATIONS)
