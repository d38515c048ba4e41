"""The viewsets of pets, categories and orders under /v1."""

from typing import Any

from django.conf import settings
from django.db import Error, IntegrityError
from django.utils import timezone
from rest_framework import status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.serializers import Serializer
from rest_framework.viewsets import ViewSetMixin

from accounts.idempotency import idempotent
from accounts.keys.identity import get_caller
from accounts.keys.scopes import ORDERS_READ, ORDERS_WRITE, PETS_READ, PETS_WRITE
from inventory import serializers
from inventory.models import Order, Pet, TransitionError
from inventory.queries import CATEGORIES, ORDER_FILTERS, ORDERS, PET_FILTERS, PETS
from petstore.api.deprecation import Deprecation
from petstore.api.errors import ApiError, ErrorCode
from petstore.api.int64 import parse_int64
from petstore.api.responses import Response
from petstore.api.views import ApiView


def parse_path_id(text: str, code: ErrorCode) -> int:
    """Raise ApiError with this code unless the text is an int64 (D7)."""
    path_id = parse_int64(text)
    if path_id is None:
        raise ApiError(code)
    return path_id


def build_created_response(instance: Pet | Order, collection: str) -> Response:
    """Build the 201 response (D8). `collection` is a path with a trailing slash."""
    headers = {"Location": f"{settings.BASE_URL}{collection}{instance.pk}"}
    return Response(instance.as_json(), status.HTTP_201_CREATED, headers)


class PetViewSet(ViewSetMixin, ApiView):
    body_serializer: type[Serializer[Any]] = serializers.NewPetSerializer
    filters = PET_FILTERS
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
        return self.paginate(PETS)

    @idempotent
    def create(self, request: Request) -> Response:
        values = self.validate(request, self.body_serializer)
        return build_created_response(Pet.objects.create_with_event(**values), "/pets/")

    def retrieve(self, request: Request, petId: str) -> Response:
        """Respond with 410 after the removal date (D33)."""
        if self.clock() >= settings.GET_PET_REMOVED_AT:
            raise ApiError(ErrorCode.ENDPOINT_REMOVED)
        pet_id = parse_path_id(petId, ErrorCode.PET_NOT_FOUND)
        pet = PETS.where(id=pet_id).fetch_one(get_caller(request).database)
        if pet is None:
            raise ApiError(ErrorCode.PET_NOT_FOUND)
        return Response(pet)

    def handle_exception(self, exc: Exception) -> Any:
        """List unknown categories, which the foreign key rejects, with the other problems of a body."""
        if isinstance(exc, IntegrityError | ValidationError):
            try:
                known = serializers.find_known_categories(self.request.data)
                self.validate(self.request, self.body_serializer, known_categories=known)
            except ValidationError as error:
                exc = error
            except Error:  # The database is unavailable.
                pass
        return super().handle_exception(exc)


class PetBatchViewSet(PetViewSet):
    body_serializer = serializers.NewPetsSerializer

    @idempotent
    def create(self, request: Request) -> Response:
        values = self.validate(request, self.body_serializer)
        pets = [pet.as_json() for pet in Pet.objects.create_batch(values["pets"])]
        headers = {"Location": f"{settings.BASE_URL}/pets"}  # The collection that they are in.
        return Response(pets, status.HTTP_201_CREATED, headers)


class CategoryViewSet(ViewSetMixin, ApiView):
    required_scopes = {"list": PETS_READ}

    def list(self, request: Request) -> Response:
        return self.paginate(CATEGORIES)


class OrderViewSet(ViewSetMixin, ApiView):
    """The orders of the caller's account."""

    filters = ORDER_FILTERS
    required_scopes = {
        "list": ORDERS_READ,
        "retrieve": ORDERS_READ,
        "create": ORDERS_WRITE,
        "destroy": ORDERS_WRITE,
    }

    def list(self, request: Request) -> Response:
        return self.paginate(ORDERS.where(account_id=get_caller(request).account_id))

    @idempotent
    def create(self, request: Request) -> Response:
        values = self.validate(request, serializers.NewOrderSerializer)
        caller = get_caller(request)
        try:
            order = Order.objects.place(
                account_id=caller.account_id, by=f"key {caller.public_id}", **values
            )
        except Pet.DoesNotExist:
            raise ApiError(ErrorCode.PET_NOT_FOUND) from None
        except TransitionError:
            raise ApiError(ErrorCode.PET_NOT_AVAILABLE) from None
        return build_created_response(order, "/store/orders/")

    def retrieve(self, request: Request, orderId: str) -> Response:
        """Respond with 404 for an unknown order and for an order of another account."""
        order_id = parse_path_id(orderId, ErrorCode.ORDER_NOT_FOUND)
        caller = get_caller(request)
        order = ORDERS.where(account_id=caller.account_id, id=order_id).fetch_one(caller.database)
        if order is None:
            raise ApiError(ErrorCode.ORDER_NOT_FOUND)
        return Response(order)

    def destroy(self, request: Request, orderId: str) -> Response:
        caller = get_caller(request)
        order_id = parse_path_id(orderId, ErrorCode.ORDER_NOT_FOUND)
        order = Order(pk=order_id, account_id=caller.account_id)
        try:
            order.cancel(by=f"key {caller.public_id}", only_placed=True)
        except Order.DoesNotExist:
            raise ApiError(ErrorCode.ORDER_NOT_FOUND) from None
        except TransitionError:
            raise ApiError(ErrorCode.ORDER_NOT_CANCELLABLE) from None
        return Response(status=status.HTTP_204_NO_CONTENT)
