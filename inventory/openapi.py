"""What the OpenAPI document says of the inventory's operations, beyond what it infers."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse

from inventory.serializers import (
    CategorySerializer,
    NewOrderSerializer,
    NewPetSerializer,
    OrderSerializer,
    PetSerializer,
)
from petstore.errors import ErrorCode

# For a list, drf-spectacular puts the example into an array.
CATEGORY = {"id": 1, "name": "Dogs", "description": "Dogs of every size."}
PET = {"id": 1, "name": "Biscuit", "categoryId": 1, "status": "available"}

GET_THE_NEW_PET = {"operationId": "getPet", "parameters": {"petId": "$response.body#/id"}}
ORDER_THE_NEW_PET = {"operationId": "placeOrder", "requestBody": {"petId": "$response.body#/id"}}

LIST_PETS: dict[str, Any] = {
    "operation_id": "listPets",
    "summary": "List animals",
    "description": "Returns animals by ascending id, optionally those of one status.",
    "tags": ["pets"],
    "parameters": [
        OpenApiParameter(
            "status",
            {"$ref": "#/components/schemas/PetStatus"},
            description="Return only animals with this status.",
        )
    ],
    "responses": {
        200: OpenApiResponse(
            PetSerializer(many=True),
            description="One page of animals.",
            examples=[OpenApiExample("Page", value=PET)],
        )
    },
}

CREATE_PET: dict[str, Any] = {
    "operation_id": "createPet",
    "summary": "Add an animal",
    "description": "Adds an animal to a category. Its id is assigned by the service.",
    "tags": ["pets"],
    "request": NewPetSerializer,
    "responses": {201: OpenApiResponse(PetSerializer, description="The animal as it was added.")},
    "extensions": {
        "x-error-codes": [ErrorCode.UNKNOWN_CATEGORY],
        "x-links": {"201": {"getPet": GET_THE_NEW_PET, "placeOrder": ORDER_THE_NEW_PET}},
    },
    "examples": [
        OpenApiExample("Request", value={"name": "Biscuit", "categoryId": 1}, request_only=True),
        OpenApiExample("Answer", value=PET, response_only=True, status_codes=["201"]),
    ],
}

GET_PET: dict[str, Any] = {
    "operation_id": "getPet",
    "summary": "Get an animal",
    "description": (
        "Returns one animal. Deprecated: removed on 5 December 2030. "
        "Use `listPets` with the `status` filter."
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
            examples=[OpenApiExample("Answer", value=PET)],
        )
    },
}

LIST_CATEGORIES: dict[str, Any] = {
    "operation_id": "listCategories",
    "summary": "List categories",
    "description": "Returns categories by ascending id.",
    "tags": ["categories"],
    "responses": {
        200: OpenApiResponse(
            CategorySerializer(many=True),
            description="One page of categories.",
            examples=[OpenApiExample("Page", value=CATEGORY)],
        )
    },
}

ORDER = {
    "id": 1,
    "petId": 1,
    "quantity": 1,
    "status": "placed",
    "shipDate": None,
    "complete": False,
}

THE_NEW_ORDER = {"orderId": "$response.body#/id"}

LIST_ORDERS: dict[str, Any] = {
    "operation_id": "listOrders",
    "summary": "List orders",
    "description": "Returns the orders of your account by ascending id, optionally those of one status.",
    "tags": ["orders"],
    "parameters": [
        OpenApiParameter(
            "status",
            {"$ref": "#/components/schemas/OrderStatus"},
            description="Return only orders with this status.",
        )
    ],
    "responses": {
        200: OpenApiResponse(
            OrderSerializer(many=True),
            description="One page of orders.",
            examples=[OpenApiExample("Page", value=ORDER)],
        )
    },
}

PLACE_ORDER: dict[str, Any] = {
    "operation_id": "placeOrder",
    "summary": "Order an animal",
    "description": (
        "Orders an animal that is available; it becomes pending. "
        "Of any number of buyers exactly one gets it."
    ),
    "tags": ["orders"],
    "request": NewOrderSerializer,
    "responses": {201: OpenApiResponse(OrderSerializer, description="The order as it was placed.")},
    "extensions": {
        "x-error-codes": [ErrorCode.PET_NOT_FOUND, ErrorCode.PET_NOT_AVAILABLE],
        "x-links": {
            "201": {
                "getOrder": {"operationId": "getOrder", "parameters": THE_NEW_ORDER},
                "cancelOrder": {"operationId": "cancelOrder", "parameters": THE_NEW_ORDER},
            }
        },
    },
    "examples": [
        OpenApiExample("Request", value={"petId": 1}, request_only=True),
        OpenApiExample("Answer", value=ORDER, response_only=True, status_codes=["201"]),
    ],
}

ORDER_ID = OpenApiParameter("orderId", int, OpenApiParameter.PATH, description="Identifier of the order.")

GET_ORDER: dict[str, Any] = {
    "operation_id": "getOrder",
    "summary": "Get an order",
    "description": "Returns one order of your account.",
    "tags": ["orders"],
    "extensions": {"x-error-codes": [ErrorCode.ORDER_NOT_FOUND]},
    "parameters": [ORDER_ID],
    "responses": {
        200: OpenApiResponse(
            OrderSerializer, description="The order.", examples=[OpenApiExample("Answer", value=ORDER)]
        )
    },
}

CANCEL_ORDER: dict[str, Any] = {
    "operation_id": "cancelOrder",
    "summary": "Cancel an order",
    "description": (
        "Cancels an order of your account that is not approved yet; its animal is available again. "
        "Cancelling it a second time changes nothing."
    ),
    "tags": ["orders"],
    "extensions": {"x-error-codes": [ErrorCode.ORDER_NOT_FOUND, ErrorCode.ORDER_NOT_CANCELLABLE]},
    "parameters": [ORDER_ID],
    "responses": {204: OpenApiResponse(description="The order is cancelled.")},
}
