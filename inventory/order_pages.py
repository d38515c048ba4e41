"""The pages on which members view and cancel the orders of their account (D49)."""

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from accounts.models import Actor, Membership, Role
from accounts.portal.access import for_members
from accounts.portal.history import STAFF
from inventory.models import Order, OrderEvent, OrderStatus, Stage
from petstore import audit
from petstore.api.int64 import parse_id
from petstore.db.keysets import choose_order

ORDERS_PER_PAGE = 25
MAX_HISTORY = 100


@for_members()
@require_safe
def orders(request: HttpRequest, me: Membership) -> HttpResponse:
    before, chosen = parse_id(request.GET.get("before")), request.GET.get("stage", "")
    stage = Stage(chosen) if chosen in Stage.values else None
    key = choose_order(Order, frozenset({"account", "status"} if stage else {"account"}))
    condition = stage.condition if stage else Q()
    rows = Order.objects.filter(condition, account=me.account_id).alias(key=key)
    if before is not None:
        rows = rows.filter(key__lt=before)
    listed = list(rows.order_by("-key").select_related("pet")[: ORDERS_PER_PAGE + 1])
    context = {
        "me": me,
        "page": "orders",
        "orders": listed[:ORDERS_PER_PAGE],
        "next": listed[-2].pk if len(listed) > ORDERS_PER_PAGE else None,
        "before": before,
        "stage": stage,
        "stages": Stage,
    }
    return render(request, "portal/orders.html", context)


@for_members()
@require_safe
def order(request: HttpRequest, me: Membership, order_id: str) -> HttpResponse:
    row = find_order(me, order_id)
    changes = row.events.all()[:MAX_HISTORY]
    context = {
        "me": me,
        "page": "orders",
        "order": row,
        "history": [(change.at, str(change), name_actor(change)) for change in changes],
        "may_cancel": row.status == OrderStatus.PLACED and not me.account.suspended_at,
    }
    return render(request, "portal/order.html", context)


@for_members(Role.DEVELOPER, limit="cancel")
@require_POST
def cancel(request: HttpRequest, me: Membership, order_id: str) -> HttpResponse:
    """Cancel the order as the API does: only before it is approved, and not while suspended."""
    row = find_order(me, order_id)
    try:
        me.account.lock(reject_suspended=True)
        if row.status != OrderStatus.CANCELLED:
            with audit.record_changes(Actor.from_request(request), row, Stage.CANCELLED):
                row.cancel(by=f"member {me.user.get_username()}", only_placed=True)
        messages.success(request, f"Order {row.pk} is cancelled.")
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
    return redirect("account-order", me.account.public_id, row.pk)


def find_order(me: Membership, order_id: str) -> Order:
    rows = Order.objects.filter(account=me.account_id).select_related("pet__category")
    found: Order = get_object_or_404(rows, pk=parse_id(order_id))
    return found


def name_actor(change: OrderEvent) -> str:
    """Name the key or the member, but no staff."""
    return change.by if change.by.startswith(("key ", "member ")) else STAFF
