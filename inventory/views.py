"""The /v1 viewsets of pets and categories."""

from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import Error, IntegrityError
from django.utils import timezone
from django.utils.http import http_date
from rest_framework import status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from accounts.caller import caller_of
from accounts.idempotency import idempotent
from accounts.scopes import PETS_READ, PETS_WRITE
from inventory.fields import seen_categories
from inventory.models import Category, Pet
from inventory.reads import CATEGORIES, PET_FILTERS, PETS
from inventory.serializers import CategorySerializer, NewPetSerializer, PetSerializer
from petstore.api.errors import ApiError, ErrorCode
from petstore.api.int64 import int64
from petstore.api.links import add_link
from petstore.api.views import ApiView

# One for all requests: it keeps nothing of them, and DRF copies every field for each new one.
NEW_PET = NewPetSerializer()


def path_id(text: str, otherwise: ErrorCode) -> int:
    """Return the int64 in a path. Raises ApiError with this code for any other text (D7)."""
    number = int64(text)
    if number is None:
        raise ApiError(otherwise)
    return number


class PetViewSet(ApiView, GenericViewSet[Pet]):
    """List, add and fetch pets."""

    queryset = Pet.objects.all()
    serializer_class = PetSerializer
    filters = PET_FILTERS
    lookup_url_kwarg = "petId"
    required_scopes = {"list": PETS_READ, "retrieve": PETS_READ, "create": PETS_WRITE}
    deprecated_operations = {"retrieve": "getPet"}
    clock = staticmethod(timezone.now)  # Tests pass another.

    def list(self, request: Request) -> Response:
        """Return one page of pets, by ascending id."""
        pets = PETS.using(caller_of(request).database)
        return self.get_paginated_response(self.paginate_queryset(pets))  # type: ignore[arg-type]  # A Read.

    @idempotent
    def create(self, request: Request) -> Response:
        """Add a pet."""
        pet = NEW_PET.create(NEW_PET.run_validation(request.data))
        headers = {"Location": f"{settings.BASE_URL}/pets/{pet.pk}"}
        return Response(pet.as_json(), status=status.HTTP_201_CREATED, headers=headers)

    def retrieve(self, request: Request, petId: str) -> Response:
        """Return one pet; deprecated, and gone from its removal date on (D33)."""
        if self.clock() >= settings.GET_PET_REMOVED_AT:
            raise ApiError(ErrorCode.ENDPOINT_REMOVED)
        pets = PETS.using(caller_of(request).database)
        pet = pets.where(id=path_id(petId, ErrorCode.PET_NOT_FOUND)).one()
        if pet is None:
            raise ApiError(ErrorCode.PET_NOT_FOUND)
        return Response(pet)

    def handle_exception(self, exc: Exception) -> Response:
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

    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        """Announce the deprecation on every answer of the deprecated operation."""
        response = super().finalize_response(request, response, *args, **kwargs)
        if self.action in self.deprecated_operations:
            announce_removal(response, settings.GET_PET_DEPRECATED_AT, settings.GET_PET_REMOVED_AT)
        return response


def announce_removal(response: Response, deprecated_at: datetime, removed_at: datetime) -> None:
    """Write Deprecation (RFC 9745), Sunset (RFC 8594) and the link to the successor."""
    response["Deprecation"] = f"@{int(deprecated_at.timestamp())}"
    response["Sunset"] = http_date(removed_at.timestamp())
    add_link(response, f"{settings.BASE_URL}/pets?status=available", "successor-version")


class CategoryViewSet(ApiView, GenericViewSet[Category]):
    """List categories."""

    queryset = Category.objects.all()
    serializer_class = CategorySerializer
    required_scopes = {"list": PETS_READ}

    def list(self, request: Request) -> Response:
        """Return one page of categories, by ascending id."""
        categories = CATEGORIES.using(caller_of(request).database)
        return self.get_paginated_response(self.paginate_queryset(categories))  # type: ignore[arg-type]  # A Read.
