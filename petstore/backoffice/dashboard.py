"""The home page of the back office: how the shop stands, and what to do next.

It knows both apps, as only urls.py and settings.py do beside it. It asks for aggregates alone, and for
nothing that the member of staff may not see.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from accounts import reports
from accounts.models import Account, PlanCode
from inventory.models import OrderStatus, PetStatus
from inventory.stock import Stock, snapshot
from petstore.backoffice.charts import BarChart, Series
from petstore.backoffice.navigation import may_view

DAYS = 30
TOP_ACCOUNTS = 10
LONGEST_LIST = 5
MOST_CATEGORIES = 12  # In the chart, those with the most animals.
NEARLY_ALL = 0.9  # The share of a daily limit from which an account is about to be refused.

PLAN_COLOURS = {
    PlanCode.FREE: "--chart-1",
    PlanCode.PRO: "--chart-2",
    PlanCode.BUSINESS: "--chart-3",
    PlanCode.ENTERPRISE: "--chart-4",
}
STATUS_COLOURS = {
    PetStatus.AVAILABLE: "--chart-1",
    PetStatus.PENDING: "--chart-2",
    PetStatus.SOLD: "--chart-5",
}


class Step(NamedTuple):
    """Something that waits for somebody."""

    icon: str  # A Material Symbol.
    text: str
    verb: str  # What the link says.
    link: str


def home(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the sections that the member of staff may see; `settings.UNFOLD` names this function."""
    sees_orders, sees_pets = may_view(request, "inventory.order"), may_view(request, "inventory.pet")
    stock = snapshot() if sees_orders or sees_pets else None
    sections: list[tuple[dict[str, Any], list[Step]]] = []
    if sees_orders:
        sections.append(orders(request, stock))
    if may_view(request, "accounts.apikey"):
        sections.append(keys(request))
    if may_view(request, "accounts.account"):
        sections.append(accounts(request))
    if sees_pets:
        sections.append(pets(request, stock))
    context["steps"] = [step for _, steps in sections for step in steps]
    context["nothing_to_see"] = not sections
    for section, _ in sections:
        context |= section
    return context


def may(request: HttpRequest, permission: str) -> bool:
    """Tell whether the member of staff has a permission."""
    return request.user.has_perm(permission)


def listing(model: str, **filters: Any) -> str:
    """Return the address of a model's list, with the list's own filters."""
    address = reverse(f"admin:{model}_changelist")
    return f"{address}?{urlencode(filters)}" if filters else address


def counted(number: int, one: str, many: str) -> str:
    """Return a number with its words: `1 order waits`, `2 orders wait`."""
    return f"{number:,} {one if number == 1 else many}"


# --- Orders --------------------------------------------------------------------------------------


def orders(request: HttpRequest, stock: Stock | None) -> tuple[dict[str, Any], list[Step]]:
    """Return the orders that wait for staff."""
    if stock is None:
        return {"orders": {"counted": False}}, []
    placed = listing("inventory_order", status__exact=OrderStatus.PLACED)
    approved = listing("inventory_order", status__exact=OrderStatus.APPROVED)
    changes = may(request, "inventory.change_order")
    steps = []
    if stock.orders_placed:
        text = counted(stock.orders_placed, "order waits for approval", "orders wait for approval")
        steps.append(Step("approval", f"{text}.", "Approve" if changes else "See the orders", placed))
    if stock.orders_approved:
        text = counted(stock.orders_approved, "approved order waits", "approved orders wait")
        verb = "Ship or deliver" if changes else "See the orders"
        steps.append(Step("local_shipping", f"{text} to be shipped or delivered.", verb, approved))
    waiting = [
        {"name": "Placed", "meaning": "wait for approval", "count": stock.orders_placed, "link": placed},
        {
            "name": "Approved",
            "meaning": "wait to be shipped or delivered",
            "count": stock.orders_approved,
            "link": approved,
        },
    ]
    for line in waiting:
        line["count"] = f"{line['count']:,}"
    section = {"counted": True, "counted_at": stock.counted_at, "waiting": waiting}
    return {"orders": section | {"link": listing("inventory_order")}}, steps


# --- Pets ----------------------------------------------------------------------------------------


def pets(request: HttpRequest, stock: Stock | None) -> tuple[dict[str, Any], list[Step]]:
    """Return the animals by category and status."""
    if stock is None:
        return {"pets": {"counted": False}}, []
    chart = stock_chart(stock)
    section = {
        "counted": True,
        "counted_at": stock.counted_at,
        "chart": chart if chart.total else None,
        "categories_left_out": max(0, len(stock.categories) - len(chart.labels)) if chart.total else 0,
        "link": listing("inventory_pet"),
    }
    steps = []
    if not chart.total and may(request, "inventory.add_pet"):
        steps.append(
            Step("pets", "The shop has no pets.", "Add the first pet", reverse("admin:inventory_pet_add"))
        )
    return {"pets": section}, steps


def stock_chart(stock: Stock) -> BarChart:
    """Return the animals of the largest categories, a bar for each; the totals are of all."""
    sizes = {row: row.available + row.pending + row.sold for row in stock.categories}
    shown = sorted((row for row in sizes if sizes[row]), key=lambda row: -sizes[row])[:MOST_CATEGORIES]

    def series(status: PetStatus) -> Series:
        return Series(
            status.label,
            STATUS_COLOURS[status],
            [getattr(row, status.value) for row in shown],
            listing("inventory_pet", status__exact=status.value),
            [
                listing("inventory_pet", category__id__exact=row.category_id, status__exact=status.value)
                for row in shown
            ],
            getattr(stock, status.value),
        )

    return BarChart(
        "Pets by category and status",
        "pets",
        "Category",
        [row.name for row in shown],
        [series(status) for status in PetStatus],
        [listing("inventory_pet", category__id__exact=row.category_id) for row in shown],
        lying=True,
    )


# --- Keys ----------------------------------------------------------------------------------------


def keys(request: HttpRequest) -> tuple[dict[str, Any], list[Step]]:
    """Return the keys that are banned, and those that end soon."""
    banned = reports.banned_keys(LONGEST_LIST)
    ending = reports.expiring_keys(limit=LONGEST_LIST)
    to_replace = ending.to_replace_in_7_days  # A key that was rotated needs nothing more.
    links = {
        "banned": listing("accounts_apikey", banned="now"),
        "in_7_days": listing("accounts_apikey", expires="7"),
        "in_30_days": listing("accounts_apikey", expires="30"),
    }
    changes = may(request, "accounts.change_apikey")
    steps = []
    if banned.total:
        text = counted(banned.total, "key is banned now.", "keys are banned now.")
        steps.append(Step("gavel", text, "See why" if changes else "See the keys", links["banned"]))
    if to_replace > 0:
        text = counted(to_replace, "key ends within 7 days", "keys end within 7 days")
        verb = "Rotate in time" if changes else "See the keys"
        steps.append(Step("key", f"{text}, without a successor.", verb, links["in_7_days"]))
    section = {"banned": banned, "ending": ending, "soonest": ending.keys[:LONGEST_LIST], "links": links}
    return {"keys": section}, steps


# --- Accounts ------------------------------------------------------------------------------------


def accounts(request: HttpRequest) -> tuple[dict[str, Any], list[Step]]:
    """Return what the accounts send, who nears the daily limit, and who calls what will be removed."""
    days = reports.requests_by_plan(DAYS)
    top = reports.top_accounts(TOP_ACCOUNTS)
    requests = traffic_chart(days, "requests", "Requests per day", "requests")
    refusals = traffic_chart(days, "refusals", "Refusals per day", "refusals")
    quiet = not (requests.total or refusals.total)
    section = {
        "days": DAYS,
        "requests": requests if requests.total else None,
        "refusals": refusals if refusals.total else None,
        "quiet": quiet,
        "none": quiet and not top and not Account.objects.exists(),
        "top": [quota_line(account) for account in top],
        "link": listing("accounts_account"),
        "why_refused": listing("accounts_refusal") if may_view(request, "accounts.refusal") else "",
        "callers": deprecated_callers(),
        "removed_at": settings.GET_PET_REMOVED_AT,
        "removed": timezone.now() >= settings.GET_PET_REMOVED_AT,
    }
    steps = []
    if section["none"] and may(request, "accounts.add_account"):
        add = reverse("admin:accounts_account_add")
        steps.append(Step("storefront", "There is no account yet.", "Add the first account", add))
    nearly = sum(account.share >= NEARLY_ALL for account in top)
    if nearly:
        at_least = "or more " if nearly == TOP_ACCOUNTS else ""
        text = counted(nearly, "account has", f"accounts {at_least}have")
        steps.append(Step("speed", f"{text} used 90% of today's quota, or more.", "See which", "#quota"))
    return {"accounts": section}, steps


def traffic_chart(days: list[reports.PlanDay], column: str, title: str, unit: str) -> BarChart:
    """Return a chart of every day, a colour for each plan."""
    return BarChart(
        f"{title}, last {DAYS} days",
        unit,
        "Day (UTC)",
        [f"{day.day:%b} {day.day.day}" for day in days if day.plan == PlanCode.FREE],
        [
            Series(
                plan.label,
                PLAN_COLOURS[plan],
                [getattr(day, column) for day in days if day.plan == plan],
                listing("accounts_account", plan__code__exact=plan.value),
            )
            for plan in PlanCode
        ],
        newest_last=True,
    )


def quota_line(account: reports.AccountToday) -> dict[str, Any]:
    """Return an account's use of its daily limit, as a bar and in words."""
    percent = account.share * 100
    return {
        "name": account.name,
        "plan": PlanCode(account.plan).label,
        "link": reverse("admin:accounts_account_change", args=[account.account_id]),
        "width": f"{min(percent, 100):.1f}",
        "percent": f"{percent:.0f}%" if percent >= 1 else "under 1%",
        "text": f"{account.requests:,} of {account.per_day:,}",
        "high": account.share >= NEARLY_ALL,
    }


def deprecated_callers() -> list[dict[str, Any]]:
    """Return who still calls getPet, with links."""
    return [
        {
            "name": caller.account_name,
            "link": reverse("admin:accounts_account_change", args=[caller.account_id]),
            "requests": f"{caller.requests:,}",
            "last_call_at": caller.last_call_at,
        }
        for caller in reports.deprecated_callers(DAYS, TOP_ACCOUNTS)
    ]
