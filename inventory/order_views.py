"""The /v1 viewset of orders (D12-D14)."""

from typing import Any

from django.conf import settings
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from accounts.caller import caller_of
from accounts.idempotency import idempotent
from accounts.scopes import ORDERS_READ, ORDERS_WRITE
from inventory.models import IllegalMoveError, Order, Pet
from inventory.reads import ORDER_FILTERS, ORDERS
from inventory.serializers import NewOrderSerializer, OrderSerializer
from inventory.views import path_id
from petstore.api.errors import ApiError, ErrorCode
from petstore.api.views import ApiView
from petstore.loop.compiled_reads import Read

NEW_ORDER = NewOrderSerializer()  # One for all requests, as in views.py.


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

    def own(self, request: Request) -> Read:
        """Return the caller's orders."""
        caller = caller_of(request)
        return ORDERS.using(caller.database).where(account_id=caller.account_id)

    def list(self, request: Request) -> Response:
        """Return one page of orders, by ascending id."""
        return self.get_paginated_response(self.paginate_queryset(self.own(request)))  # type: ignore[arg-type]  # A Read.

    @idempotent
    def create(self, request: Request) -> Response:
        """Order a pet that is available."""
        wanted = NEW_ORDER.run_validation(request.data)
        caller = caller_of(request)
        try:
            order = Order.objects.place(
                account_id=caller.account_id,
                pet_id=wanted["pet_id"],
                by=f"key {caller.public_id}",
            )
        except Pet.DoesNotExist:
            raise ApiError(ErrorCode.PET_NOT_FOUND) from None
        except IllegalMoveError:
            raise ApiError(ErrorCode.PET_NOT_AVAILABLE) from None
        headers = {"Location": f"{settings.BASE_URL}/store/orders/{order.pk}"}
        return Response(order.as_json(), status=status.HTTP_201_CREATED, headers=headers)

    def retrieve(self, request: Request, orderId: str) -> Response:
        """Return one order."""
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
        order = self.own(request).where(id=path_id(order_id, ErrorCode.ORDER_NOT_FOUND)).one()
        if order is None:
            raise ApiError(ErrorCode.ORDER_NOT_FOUND)
        return order
