"""What the OpenAPI document says of the inventory, beyond what drf-spectacular infers.

Loaded when the document is built, not with the service: drf-spectacular takes long to import.
"""

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension, OpenApiViewExtension
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiRequest,
    OpenApiResponse,
    extend_schema,
    extend_schema_view,
)

from inventory.models import NAME_LENGTH
from inventory.serializers import (
    CategorySerializer,
    NewOrderSerializer,
    NewPetSerializer,
    OrderSerializer,
    PetSerializer,
)
from petstore.api.errors import ErrorCode as Code

# What str.strip() takes away. Not `\s`: Python, ECMAScript and Rust each mean something else by it.
BLANKS = r"\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


class Name(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "inventory.fields.NameField"

    def map_serializer_field(self, auto_schema: Any, direction: str) -> dict[str, Any]:
        # At least one character that is no blank, and no NUL.
        pattern = rf"^[^\u0000]*[^\u0000{BLANKS}][^\u0000]*$"
        return {"type": "string", "minLength": 1, "maxLength": NAME_LENGTH, "pattern": pattern}


class Int64(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "inventory.fields.Int64Field"
    match_subclasses = True

    def map_serializer_field(self, auto_schema: Any, direction: str) -> dict[str, Any]:
        return {"type": "integer", "format": "int64"}


CATEGORIES = [
    {"id": 1, "name": "Dogs", "description": "Dogs of every size."},
    {"id": 2, "name": "Cats", "description": "Cats, indoor and outdoor."},
]
PET = {"id": 1, "name": "Biscuit", "categoryId": 1, "status": "available"}
PETS = [PET, {"id": 2, "name": "Marble", "categoryId": 2, "status": "available"}]
NEW_PETS = {
    "Request": ("What is required.", {"name": "Biscuit", "categoryId": 1}),
    "RequestWithStatus": (
        "An animal that is promised to somebody.",
        {"name": "Marble", "categoryId": 2, "status": "pending"},
    ),
}
NEW_ORDERS = {"Request": ("An animal.", {"petId": 1})}
ORDER = {"id": 1, "petId": 1, "quantity": 1, "status": "placed", "shipDate": None, "complete": False}
DELIVERED = ORDER | {"status": "delivered", "shipDate": "2026-03-02T09:30:00Z", "complete": True}
ORDERS = [DELIVERED, ORDER | {"id": 4, "petId": 7}]

Examples = dict[str, tuple[str, Any]] | None


def operation(
    operation_id: str,
    summary: str,
    description: str,
    *,
    answer: tuple[int, Any, str],
    examples: Examples = None,
    errors: list[Code] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return arguments of `extend_schema`; hooks.complete reads the extensions.

    `answer`: status, serializer and description; `examples`: of it, name to summary and value; `errors`:
    what it can answer beyond the errors of every operation.
    """
    response = OpenApiResponse(answer[1], description=answer[2], examples=as_examples(examples))
    extensions = {"x-error-codes": errors or [], **more.pop("extensions", {})}
    return {
        "operation_id": operation_id,
        "summary": summary,
        "description": description,
        "responses": {answer[0]: response},
        "extensions": extensions,
        **more,
    }


def listing(
    operation_id: str, noun: str, description: str, serializer: Any, example: Any
) -> dict[str, Any]:
    """Return the same for an operation that answers with pages; `example`: summary and value of one."""
    return operation(
        operation_id,
        f"List {noun}",
        f'{description} Follow `Link: rel="next"` for the next page.',
        answer=(200, serializer(many=True), f"One page of {noun}."),
        examples={"Page": example},
    )


def as_examples(found: Examples) -> list[OpenApiExample]:
    return [
        OpenApiExample(name, value, summary=summary) for name, (summary, value) in (found or {}).items()
    ]


def problems(*found: tuple[Code, str, str]) -> dict[Code, Any]:
    """Return an example of each error of a body: its code, and the field and message of its detail."""
    return {
        code: {"details": [{"field": field, "code": code.value, "message": message}]}
        for code, field, message in found
    }


def links(**found: dict[str, Any]) -> dict[str, Any]:
    """Return where the answer 201 leads to, by operation."""
    return {"201": {name: {"operationId": name, **link} for name, link in found.items()}}


SENT_AGAIN = "With an `Idempotency-Key` the request can safely be sent again."
REQUIRED = "This field is required."
NEW_PET_ID = {"petId": "$response.body#/id"}
NEW_ORDER_ID = {"orderId": "$response.body#/id"}
PET_ID = OpenApiParameter("petId", int, OpenApiParameter.PATH, description="Identifier of the animal.")
ORDER_ID = OpenApiParameter("orderId", int, OpenApiParameter.PATH, description="Identifier of the order.")

PETS_OPERATIONS = {
    "list": listing(
        "listPets",
        "animals",
        "Returns animals by ascending id, optionally those of one status, of one category, or both.",
        PetSerializer,
        ("Two animals.", PETS),
    ),
    "create": operation(
        "createPet",
        "Add an animal",
        f"Adds an animal to a category. Its id is assigned by the service. {SENT_AGAIN}",
        request=OpenApiRequest(NewPetSerializer, examples=as_examples(NEW_PETS)),
        answer=(201, PetSerializer, "The animal as it was added."),
        examples={"Answer": ("The new animal.", PET)},
        errors=[Code.UNKNOWN_CATEGORY],
        extensions={
            "x-error-examples": problems(
                (Code.MISSING_FIELD, "categoryId", REQUIRED),
                (Code.INVALID_FIELD, "name", "Must be a string."),
                (
                    Code.UNKNOWN_CATEGORY,
                    "categoryId",
                    "No category has this id. List them with GET /categories.",
                ),
            ),
            "x-links": links(
                getPet={"parameters": NEW_PET_ID, "description": "The new animal, by its id."},
                # In OpenAPI 3.0 a link's `requestBody` is one expression or a literal: an expression inside
                # an object would be sent as it stands. So the body is told in words, and in an extension
                # for tools that know it.
                placeOrder={
                    "description": "Orders the new animal: send its `id` as `petId`.",
                    "x-request-body": NEW_PET_ID,
                },
            ),
        },
    ),
    "retrieve": operation(
        "getPet",
        "Get an animal",
        "Returns one animal. Deprecated: removed on 5 December 2030. "
        "Use `listPets` with the `status` filter.",
        parameters=[PET_ID],
        answer=(200, PetSerializer, "The animal."),
        examples={"Answer": ("An animal.", PET)},
        errors=[Code.PET_NOT_FOUND, Code.ENDPOINT_REMOVED],
        deprecated=True,
    ),
}

CATEGORIES_OPERATIONS = {
    "list": listing(
        "listCategories",
        "categories",
        "Returns categories by ascending id.",
        CategorySerializer,
        ("Two categories.", CATEGORIES),
    )
}

ORDERS_OPERATIONS = {
    "list": listing(
        "listOrders",
        "orders",
        "Returns the orders of your account by ascending id, optionally those of one status.",
        OrderSerializer,
        ("A delivered and a new order.", ORDERS),
    ),
    "create": operation(
        "placeOrder",
        "Order an animal",
        "Orders an animal that is available; it becomes pending. "
        f"Of any number of buyers exactly one gets it. {SENT_AGAIN}",
        request=OpenApiRequest(NewOrderSerializer, examples=as_examples(NEW_ORDERS)),
        answer=(201, OrderSerializer, "The order as it was placed."),
        examples={"Answer": ("The new order.", ORDER)},
        errors=[Code.PET_NOT_FOUND, Code.PET_NOT_AVAILABLE],
        extensions={
            "x-error-examples": problems(
                (Code.MISSING_FIELD, "petId", REQUIRED),
                (Code.INVALID_FIELD, "petId", "Must be an integer from -2^63 to 2^63 - 1."),
            ),
            "x-links": links(
                getOrder={"parameters": NEW_ORDER_ID, "description": "The new order, by its id."},
                cancelOrder={
                    "parameters": NEW_ORDER_ID,
                    "description": "Cancels the new order, as long as staff have not approved it.",
                },
            ),
        },
    ),
    "retrieve": operation(
        "getOrder",
        "Get an order",
        "Returns one order of your account.",
        parameters=[ORDER_ID],
        answer=(200, OrderSerializer, "The order."),
        examples={"New": ("A new order.", ORDER), "Delivered": ("A delivered order.", DELIVERED)},
        errors=[Code.ORDER_NOT_FOUND],
    ),
    "destroy": operation(
        "cancelOrder",
        "Cancel an order",
        "Cancels an order of your account that is not approved yet; its animal is available again. "
        "Cancelling it a second time changes nothing.",
        parameters=[ORDER_ID],
        answer=(204, None, "The order is cancelled."),
        errors=[Code.ORDER_NOT_FOUND, Code.ORDER_NOT_CANCELLABLE],
    ),
}

# By viewset: the tag of its operations, and these.
VIEWS = {
    "PetViewSet": ("pets", PETS_OPERATIONS),
    "CategoryViewSet": ("categories", CATEGORIES_OPERATIONS),
    "OrderViewSet": ("orders", ORDERS_OPERATIONS),
}


class Operations(OpenApiViewExtension):  # type: ignore[no-untyped-call]
    target_class = "petstore.api.views.ApiView"
    match_subclasses = True

    def view_replacement(self) -> Any:
        tag, operations = VIEWS[self.target.__name__]
        scopes = self.target.required_scopes
        told = {
            action: one | {"description": f"{one['description']} Needs the scope `{scopes[action]}`."}
            for action, one in operations.items()
        }
        schemas = {action: extend_schema(**one, tags=[tag]) for action, one in told.items()}
        return extend_schema_view(**schemas)(self.target)
