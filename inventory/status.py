"""Statuses of pets and orders, and the allowed transitions."""

from typing import Any, cast

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.expressions import RawSQL
from django.utils import timezone

from petstore.audit.actions import labels, register


class PetStatus(models.TextChoices):
    AVAILABLE = "available"
    PENDING = "pending"
    SOLD = "sold"


# D15. A return, from sold to available, requires a reason.
PET_TRANSITIONS: dict[PetStatus, set[PetStatus]] = {
    PetStatus.AVAILABLE: {PetStatus.PENDING, PetStatus.SOLD},
    PetStatus.PENDING: {PetStatus.AVAILABLE, PetStatus.SOLD},
    PetStatus.SOLD: {PetStatus.AVAILABLE},
}


class OrderStatus(models.TextChoices):  # D12
    PLACED = "placed"
    APPROVED = "approved"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"


# A live order holds its pet: the pet is pending, and no other order can be placed for it.
LIVE_STATUSES = (OrderStatus.PLACED, OrderStatus.APPROVED)


@register()
class Stage(models.TextChoices):
    """What the pages of staff and customers show instead of the API status, from which it is derived.

    The audit trail records the steps of an order by the stage that they lead to.
    """

    TO_APPROVE = "to_approve", OrderStatus.PLACED.label
    TO_SHIP = "to_ship", OrderStatus.APPROVED.label
    SCHEDULED = "scheduled"  # The ship date is in the future.
    SHIPPED = "shipped"
    DELIVERED = OrderStatus.DELIVERED.value
    CANCELLED = OrderStatus.CANCELLED.value
    RETURNED = "returned"

    @property
    def condition(self) -> Q:
        """The condition of the orders at this stage, for which a partial index exists."""
        if self in {Stage.SCHEDULED, Stage.SHIPPED}:
            lookup = "ship_date__gt" if self == Stage.SCHEDULED else "ship_date__lte"
            return Q(status=OrderStatus.APPROVED, **{lookup: timezone.now()})
        if self == Stage.DELIVERED:
            return INDEX_CONDITIONS[self] & Q(returned_at__isnull=True)
        return INDEX_CONDITIONS[self]


del labels[Stage.TO_APPROVE]  # Only clients place orders, which is no entry of the audit trail.

# The conditions of the partial indexes. That of shipped orders includes the scheduled ones, and that of
# delivered orders the returned ones.
INDEX_CONDITIONS = {
    Stage.TO_APPROVE: Q(status=OrderStatus.PLACED),
    Stage.TO_SHIP: Q(status=OrderStatus.APPROVED, ship_date__isnull=True),
    Stage.SHIPPED: Q(status=OrderStatus.APPROVED, ship_date__isnull=False),
    Stage.DELIVERED: Q(status=OrderStatus.DELIVERED),
    Stage.CANCELLED: Q(status=OrderStatus.CANCELLED),
    Stage.RETURNED: Q(returned_at__isnull=False),
}

ORDER_TRANSITIONS: dict[str, set[OrderStatus]] = {
    OrderStatus.PLACED: {OrderStatus.APPROVED, OrderStatus.CANCELLED},
    OrderStatus.APPROVED: {OrderStatus.DELIVERED, OrderStatus.CANCELLED},
    OrderStatus.DELIVERED: set(),
    OrderStatus.CANCELLED: set(),
}


class TransitionError(ValidationError):
    """A pet or an order can't change to this status. The message is for staff."""


def inline_values(condition: Q) -> Q:
    """Replace statuses by literals: with parameters, a prepared statement can't use a partial index."""
    lookups = cast("list[tuple[str, Any]]", condition.children)
    return Q(*((lookup, inline_value(value)) for lookup, value in lookups))


def inline_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [inline_value(item) for item in value]
    return RawSQL(f"'{value}'", ()) if isinstance(value, OrderStatus) else value  # noqa: S611  Constants.
