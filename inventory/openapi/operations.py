"""What the OpenAPI document says of the inventory's operations, beyond what it infers."""

from typing import Any

from drf_spectacular.extensions import OpenApiViewExtension
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_view,
)

from inventory.serializers import (
    CategorySerializer,
    NewOrderSerializer,
    NewPetSerializer,
    OrderSerializer,
    PetSerializer,
)
from petstore.api.errors import ErrorCode

CATEGORIES = [
    {"id": 1, "name": "Dogs", "description": "Dogs of every size."},
    {"id": 2, "name": "Cats", "description": "Cats, indoor and outdoor."},
]
PET = {"id": 1, "name": "Biscuit", "categoryId": 1, "status": "available"}
PETS = [PET, {"id": 2, "name": "Marble", "categoryId": 2, "status": "available"}]
ORDER = {
    "id": 1,
    "petId": 1,
    "quantity": 1,
    "status": "placed",
    "shipDate": None,
    "complete": False,
}
DELIVERED = ORDER | {"status": "delivered", "shipDate": "2026-03-02T09:30:00Z", "complete": True}
ORDERS = [DELIVERED, ORDER | {"id": 4, "petId": 7}]

THE_NEW_PET = {"petId": "$response.body#/id"}
GET_THE_NEW_PET = {
    "operationId": "getPet",
    "parameters": THE_NEW_PET,
    "description": "The new animal, by its id.",
}
# In OpenAPI 3.0 a link's `requestBody` is one expression or a literal: an expression inside an object would
# be sent as it stands. So the body is told in words, and in an extension for tools that know it.
ORDER_THE_NEW_PET = {
    "operationId": "placeOrder",
    "description": "Orders the new animal: send its `id` as `petId`.",
    "x-request-body": THE_NEW_PET,
}


def body_errors(missing: str, wrong: str, reason: str) -> dict[ErrorCode, Any]:
    """Return examples of what is wrong with a body: a missing member, and one with a wrong value."""
    return {
        ErrorCode.MISSING_FIELD: {
            "details": [{"field": missing, "code": "missing_field", "message": "This field is required."}]
        },
        ErrorCode.INVALID_FIELD: {
            "details": [{"field": wrong, "code": "invalid_field", "message": reason}]
        },
    }


NO_INTEGER = "Must be an integer from -2^63 to 2^63 - 1."
UNKNOWN_CATEGORY = {
    "details": [
        {
            "field": "categoryId",
            "code": "unknown_category",
            "message": "No category has this id. List them with GET /categories.",
        }
    ]
}

LIST_PETS: dict[str, Any] = {
    "operation_id": "listPets",
    "summary": "List animals",
    "description": (
        "Returns animals by ascending id, optionally those of one status, of one category, or both. "
        'Follow `Link: rel="next"` for the next page. Needs the scope `pets:read`.'
    ),
    "tags": ["pets"],
    "responses": {
        200: OpenApiResponse(
            PetSerializer(many=True),
            description="One page of animals.",
            examples=[OpenApiExample("Page", summary="Two animals.", value=PETS)],
        )
    },
}

CREATE_PET: dict[str, Any] = {
    "operation_id": "createPet",
    "summary": "Add an animal",
    "description": (
        "Adds an animal to a category. Its id is assigned by the service. "
        "With an `Idempotency-Key` the request can safely be sent again. Needs the scope `pets:write`."
    ),
    "tags": ["pets"],
    "request": NewPetSerializer,
    "responses": {201: OpenApiResponse(PetSerializer, description="The animal as it was added.")},
    "extensions": {
        "x-error-codes": [ErrorCode.UNKNOWN_CATEGORY],
        "x-error-examples": {
            **body_errors("categoryId", "name", "Must be a string."),
            ErrorCode.UNKNOWN_CATEGORY: UNKNOWN_CATEGORY,
        },
        "x-links": {"201": {"getPet": GET_THE_NEW_PET, "placeOrder": ORDER_THE_NEW_PET}},
    },
    "examples": [
        OpenApiExample(
            "Request",
            summary="What is required.",
            value={"name": "Biscuit", "categoryId": 1},
            request_only=True,
        ),
        OpenApiExample(
            "RequestWithStatus",
            summary="An animal that is promised to somebody.",
            value={"name": "Marble", "categoryId": 2, "status": "pending"},
            request_only=True,
        ),
        OpenApiExample(
            "Answer", summary="The new animal.", value=PET, response_only=True, status_codes=["201"]
        ),
    ],
}

GET_PET: dict[str, Any] = {
    "operation_id": "getPet",
    "summary": "Get an animal",
    "description": (
        "Returns one animal. Deprecated: removed on 5 December 2030. "
        "Use `listPets` with the `status` filter. Needs the scope `pets:read`."
    ),
    "tags": ["pets"],
    "deprecated": True,
    "extensions": {"x-error-codes": [ErrorCode.PET_NOT_FOUND, ErrorCode.ENDPOINT_REMOVED]},
    "parameters": [
        OpenApiParameter("petId", int, OpenApiParameter.PATH, description="Identifier of the animal.")
    ],
    "responses": {
        200: OpenApiResponse(
            PetSerializer,
            description="The animal.",
            examples=[OpenApiExample("Answer", summary="An animal.", value=PET)],
        )
    },
}

LIST_CATEGORIES: dict[str, Any] = {
    "operation_id": "listCategories",
    "summary": "List categories",
    "description": (
        'Returns categories by ascending id. Follow `Link: rel="next"` for the next page. '
        "Needs the scope `pets:read`."
    ),
    "tags": ["categories"],
    "responses": {
        200: OpenApiResponse(
            CategorySerializer(many=True),
            description="One page of categories.",
            examples=[OpenApiExample("Page", summary="Two categories.", value=CATEGORIES)],
        )
    },
}

THE_NEW_ORDER = {"orderId": "$response.body#/id"}

LIST_ORDERS: dict[str, Any] = {
    "operation_id": "listOrders",
    "summary": "List orders",
    "description": (
        "Returns the orders of your account by ascending id, optionally those of one status. "
        'Follow `Link: rel="next"` for the next page. Needs the scope `orders:read`.'
    ),
    "tags": ["orders"],
    "responses": {
        200: OpenApiResponse(
            OrderSerializer(many=True),
            description="One page of orders.",
            examples=[OpenApiExample("Page", summary="A delivered and a new order.", value=ORDERS)],
        )
    },
}

PLACE_ORDER: dict[str, Any] = {
    "operation_id": "placeOrder",
    "summary": "Order an animal",
    "description": (
        "Orders an animal that is available; it becomes pending. "
        "Of any number of buyers exactly one gets it. With an `Idempotency-Key` the request can safely be "
        "sent again. Needs the scope `orders:write`."
    ),
    "tags": ["orders"],
    "request": NewOrderSerializer,
    "responses": {201: OpenApiResponse(OrderSerializer, description="The order as it was placed.")},
    "extensions": {
        "x-error-codes": [ErrorCode.PET_NOT_FOUND, ErrorCode.PET_NOT_AVAILABLE],
        "x-error-examples": body_errors("petId", "petId", NO_INTEGER),
        "x-links": {
            "201": {
                "getOrder": {
                    "operationId": "getOrder",
                    "parameters": THE_NEW_ORDER,
                    "description": "The new order, by its id.",
                },
                "cancelOrder": {
                    "operationId": "cancelOrder",
                    "parameters": THE_NEW_ORDER,
                    "description": "Cancels the new order, as long as staff have not approved it.",
                },
            }
        },
    },
    "examples": [
        OpenApiExample("Request", summary="An animal.", value={"petId": 1}, request_only=True),
        OpenApiExample(
            "Answer", summary="The new order.", value=ORDER, response_only=True, status_codes=["201"]
        ),
    ],
}

ORDER_ID = OpenApiParameter("orderId", int, OpenApiParameter.PATH, description="Identifier of the order.")

GET_ORDER: dict[str, Any] = {
    "operation_id": "getOrder",
    "summary": "Get an order",
    "description": "Returns one order of your account. Needs the scope `orders:read`.",
    "tags": ["orders"],
    "extensions": {"x-error-codes": [ErrorCode.ORDER_NOT_FOUND]},
    "parameters": [ORDER_ID],
    "responses": {
        200: OpenApiResponse(
            OrderSerializer,
            description="The order.",
            examples=[
                OpenApiExample("New", summary="A new order.", value=ORDER),
                OpenApiExample("Delivered", summary="A delivered order.", value=DELIVERED),
            ],
        )
    },
}

CANCEL_ORDER: dict[str, Any] = {
    "operation_id": "cancelOrder",
    "summary": "Cancel an order",
    "description": (
        "Cancels an order of your account that is not approved yet; its animal is available again. "
        "Cancelling it a second time changes nothing. Needs the scope `orders:write`."
    ),
    "tags": ["orders"],
    "extensions": {"x-error-codes": [ErrorCode.ORDER_NOT_FOUND, ErrorCode.ORDER_NOT_CANCELLABLE]},
    "parameters": [ORDER_ID],
    "responses": {204: OpenApiResponse(description="The order is cancelled.")},
}


class PetOperations(OpenApiViewExtension):  # type: ignore[no-untyped-call]
    target_class = "inventory.views.PetViewSet"

    def view_replacement(self) -> Any:
        return extend_schema_view(
            list=extend_schema(**LIST_PETS),
            create=extend_schema(**CREATE_PET),
            retrieve=extend_schema(**GET_PET),
        )(self.target)


class CategoryOperations(OpenApiViewExtension):  # type: ignore[no-untyped-call]
    target_class = "inventory.views.CategoryViewSet"

    def view_replacement(self) -> Any:
        return extend_schema_view(list=extend_schema(**LIST_CATEGORIES))(self.target)


class OrderOperations(OpenApiViewExtension):  # type: ignore[no-untyped-call]
    target_class = "inventory.views.OrderViewSet"

    def view_replacement(self) -> Any:
        return extend_schema_view(
            list=extend_schema(**LIST_ORDERS),
            create=extend_schema(**PLACE_ORDER),
            retrieve=extend_schema(**GET_ORDER),
            destroy=extend_schema(**CANCEL_ORDER),
        )(self.target)
