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
from accounts.keys.identity import get_caller
from accounts.keys.scopes import ORDERS_READ, ORDERS_WRITE, PETS_READ, PETS_WRITE
from inventory.fields import known_categories
from inventory.models import Category, Order, Pet, TransitionError
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

# Shared by all requests: they hold no state, and DRF copies every field for each new instance.
NEW_PET, NEW_ORDER = NewPetSerializer(), NewOrderSerializer()


def path_id(text: str, code: ErrorCode) -> int:
    """Parse an int64. Raises ApiError with this code (D7)."""
    number = int64(text)
    if number is None:
        raise ApiError(code)
    return number


def created(row: Pet | Order, path: str) -> Response:
    """Build the 201 response (D8). `path` is the collection's, with a trailing slash."""
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
    clock = staticmethod(timezone.now)

    def list(self, request: Request) -> Response:
        return self.page_of(PETS, request, get_caller(request).database)

    @idempotent
    def create(self, request: Request) -> Write:
        members = NEW_PET.run_validation(request.data)
        return lambda: created(Pet.objects.add(**members), "/pets/")

    def retrieve(self, request: Request, petId: str) -> Response:
        """Respond with 410 after the removal date (D33)."""
        if self.clock() >= settings.GET_PET_REMOVED_AT:
            raise ApiError(ErrorCode.ENDPOINT_REMOVED)
        number = path_id(petId, ErrorCode.PET_NOT_FOUND)
        pet = PETS.where(id=number).fetch_one(get_caller(request).database)
        if pet is None:
            raise ApiError(ErrorCode.PET_NOT_FOUND)
        return Response(pet)

    def handle_exception(self, exc: Exception) -> Any:
        # The category may have been deleted since it was validated; the foreign key is checked at COMMIT.
        if isinstance(exc, IntegrityError):
            known_categories.clear()
            exc = self.revalidate() or exc
        return super().handle_exception(exc)

    def revalidate(self) -> ValidationError | None:
        try:
            NEW_PET.run_validation(self.request.data)
        except ValidationError as error:
            return error
        except Error:  # The database became unavailable: report the first exception.
            return None
        return None


class CategoryViewSet(ApiView, GenericViewSet[Category]):
    queryset = Category.objects.all()
    serializer_class = CategorySerializer
    required_scopes = {"list": PETS_READ}

    def list(self, request: Request) -> Response:
        return self.page_of(CATEGORIES, request, get_caller(request).database)


class OrderViewSet(ApiView, GenericViewSet[Order]):
    """The orders of the caller's account."""

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
        caller = get_caller(request)
        own = ORDERS.where(account_id=caller.account_id)
        return self.page_of(own, request, caller.database)

    @idempotent
    def create(self, request: Request) -> Write:
        values = NEW_ORDER.run_validation(request.data)
        caller = get_caller(request)

        def write() -> Response:
            try:
                by = f"key {caller.public_id}"
                order = Order.objects.place(account_id=caller.account_id, by=by, **values)
            except Pet.DoesNotExist:
                raise ApiError(ErrorCode.PET_NOT_FOUND) from None
            except TransitionError:
                raise ApiError(ErrorCode.PET_NOT_AVAILABLE) from None
            return created(order, "/store/orders/")

        return write

    def retrieve(self, request: Request, orderId: str) -> Response:
        return Response(self.find(request, orderId))

    def destroy(self, request: Request, orderId: str) -> Response:
        order = Order(pk=self.find(request, orderId)["id"])
        try:
            order.cancel(by=f"key {get_caller(request).public_id}", only_placed=True)
        except TransitionError:
            raise ApiError(ErrorCode.ORDER_NOT_CANCELLABLE) from None
        return Response(status=status.HTTP_204_NO_CONTENT)

    def find(self, request: Request, order_id: str) -> dict[str, Any]:
        """Raise ApiError 404, also for orders of other accounts."""
        number = path_id(order_id, ErrorCode.ORDER_NOT_FOUND)
        caller = get_caller(request)
        order = ORDERS.where(account_id=caller.account_id, id=number).fetch_one(caller.database)
        if order is None:
            raise ApiError(ErrorCode.ORDER_NOT_FOUND)
        return order
