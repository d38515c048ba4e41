"""The /v1 viewsets of pets, categories and orders."""

from typing import Any

from django.conf import settings
from django.db import Error, IntegrityError
from django.utils import timezone
from rest_framework import status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from accounts.idempotency import Write, idempotent
from accounts.keys.identity import caller_of
from accounts.keys.scopes import ORDERS_READ, ORDERS_WRITE, PETS_READ, PETS_WRITE
from inventory.fields import seen_categories
from inventory.models import Category, IllegalMoveError, Order, Pet
from inventory.queries import CATEGORIES, ORDER_FILTERS, ORDERS, PET_FILTERS, PETS
from inventory.serializers import (
    CategorySerializer,
    NewOrderSerializer,
    NewPetSerializer,
    OrderSerializer,
    PetSerializer,
)
from petstore.api.deprecation import Deprecation
from petstore.api.errors import ApiError, ErrorCode
from petstore.api.int64 import int64
from petstore.api.responses import Response
from petstore.api.views import ApiView

# One for all requests: they keep nothing of them, and DRF copies every field for each new one.
NEW_PET, NEW_ORDER = NewPetSerializer(), NewOrderSerializer()


def path_id(text: str, otherwise: ErrorCode) -> int:
    """Return the int64 in a path. Raises ApiError with this code for any other text (D7)."""
    number = int64(text)
    if number is None:
        raise ApiError(otherwise)
    return number


def created(row: Pet | Order, path: str) -> Response:
    """Return the 201 of a new row; `path`: of its URL, up to the id (D8)."""
    headers = {"Location": f"{settings.BASE_URL}{path}{row.pk}"}
    return Response(row.as_json(), status.HTTP_201_CREATED, headers)


class PetViewSet(ApiView, GenericViewSet[Pet]):
    queryset = Pet.objects.all()
    serializer_class = PetSerializer
    filters = PET_FILTERS
    lookup_url_kwarg = "petId"
    required_scopes = {"list": PETS_READ, "retrieve": PETS_READ, "create": PETS_WRITE}
    deprecations = {
        "retrieve": Deprecation(
            "getPet",
            settings.GET_PET_DEPRECATED_AT,
            settings.GET_PET_REMOVED_AT,
            successor=f"{settings.BASE_URL}/pets?status=available",
        )
    }
    clock = staticmethod(timezone.now)  # Tests pass another.

    def list(self, request: Request) -> Response:
        return self.page_of(PETS, request, caller_of(request).database)

    @idempotent
    def create(self, request: Request) -> Write:
        """Add a pet; the database refuses it if its category was deleted since the check."""
        members = NEW_PET.run_validation(request.data)
        return lambda: created(Pet.objects.add(**members), "/pets/")

    def retrieve(self, request: Request, petId: str) -> Response:
        """Return one pet; deprecated, and gone from its removal date on (D33)."""
        if self.clock() >= settings.GET_PET_REMOVED_AT:
            raise ApiError(ErrorCode.ENDPOINT_REMOVED)
        number = path_id(petId, ErrorCode.PET_NOT_FOUND)
        pet = PETS.where(id=number).one(caller_of(request).database)
        if pet is None:
            raise ApiError(ErrorCode.PET_NOT_FOUND)
        return Response(pet)

    def handle_exception(self, exc: Exception) -> Any:
        """Answer an exception. What the database refuses, if only when it commits, may be the category."""
        if isinstance(exc, IntegrityError):
            seen_categories.clear()
            exc = self.why_refused() or exc
        return super().handle_exception(exc)

    def why_refused(self) -> ValidationError | None:
        """Return what is wrong with the body by now: its category may have gone since it was checked."""
        try:
            NEW_PET.run_validation(self.request.data)
        except ValidationError as error:
            return error
        except Error:  # The database went away meanwhile: what it said first is answered.
            return None
        return None


class CategoryViewSet(ApiView, GenericViewSet[Category]):
    queryset = Category.objects.all()
    serializer_class = CategorySerializer
    required_scopes = {"list": PETS_READ}

    def list(self, request: Request) -> Response:
        return self.page_of(CATEGORIES, request, caller_of(request).database)


class OrderViewSet(ApiView, GenericViewSet[Order]):
    """List, place, fetch and cancel orders; an account sees its own and no one else's."""

    queryset = Order.objects.all()
    serializer_class = OrderSerializer
    filters = ORDER_FILTERS
    lookup_url_kwarg = "orderId"
    required_scopes = {
        "list": ORDERS_READ,
        "retrieve": ORDERS_READ,
        "create": ORDERS_WRITE,
        "destroy": ORDERS_WRITE,
    }

    def list(self, request: Request) -> Response:
        caller = caller_of(request)
        own = ORDERS.where(account_id=caller.account_id)
        return self.page_of(own, request, caller.database)

    @idempotent
    def create(self, request: Request) -> Write:
        wanted = NEW_ORDER.run_validation(request.data)
        caller = caller_of(request)

        def write() -> Response:
            try:
                by = f"key {caller.public_id}"
                order = Order.objects.place(account_id=caller.account_id, by=by, **wanted)
            except Pet.DoesNotExist:
                raise ApiError(ErrorCode.PET_NOT_FOUND) from None
            except IllegalMoveError:
                raise ApiError(ErrorCode.PET_NOT_AVAILABLE) from None
            return created(order, "/store/orders/")

        return write

    def retrieve(self, request: Request, orderId: str) -> Response:
        return Response(self.find(request, orderId))

    def destroy(self, request: Request, orderId: str) -> Response:
        """Cancel an order that is not approved yet; its pet is available again."""
        order = Order(pk=self.find(request, orderId)["id"])
        try:
            order.cancel(by=f"key {caller_of(request).public_id}", only_placed=True)
        except IllegalMoveError:
            raise ApiError(ErrorCode.ORDER_NOT_CANCELLABLE) from None
        return Response(status=status.HTTP_204_NO_CONTENT)

    def find(self, request: Request, order_id: str) -> dict[str, Any]:
        """Return the caller's order with this id. Raises ApiError 404, for somebody else's too."""
        number = path_id(order_id, ErrorCode.ORDER_NOT_FOUND)
        caller = caller_of(request)
        order = ORDERS.where(account_id=caller.account_id, id=number).one(caller.database)
        if order is None:
            raise ApiError(ErrorCode.ORDER_NOT_FOUND)
        return order
