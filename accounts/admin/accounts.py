"""Accounts in the back office: the list, and the page of one with what it shows beside the form."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib import admin
from django.db.models import CharField, Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Cast, Coalesce
from django.db.models.lookups import GreaterThanOrEqual
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.decorators import display

from accounts import key_text, reports
from accounts.admin.badges import PLAN_COLOURS, age, exact, state_badge, usage_bar
from accounts.admin.base import PastedKeyAdmin, public_id_in, with_use_of_today
from accounts.admin.plans import WhatIfAdmin
from accounts.admin.suspension import SuspendedFilter, SuspensionPages
from accounts.events.warnings import THRESHOLDS
from accounts.models import EPOCH, Account, ApiKey, PlanCode
from petstore.backoffice.audit import HIDDEN_NEW, Action
from petstore.backoffice.charts import BarChart, Series
from petstore.backoffice.filters import ChoiceFilter
from petstore.backoffice.history import Entry
from petstore.backoffice.models import AuditEntry
from petstore.backoffice.navigation import may_view

KEYS_SHOWN = 20
LATEST = 10  # Refusals, bans.
TIMELINE_SHOWN = 30
BANS = {Action.BANNED: "gavel", Action.UNBANNED: "lock_open"}
SUSPENSIONS = {Action.SUSPENDED: "pause_circle", Action.SUSPENSION_LIFTED: "play_circle"}
ICONS = {Action.ISSUED: "key", Action.ROTATED: "autorenew", Action.REVOKED: "block"} | BANS
# The fields of an account that staff change, in the words of its form.
FIELDS = {
    "name": "name",
    "contact_email": "contact email",
    "notes": "notes",
    "plan": "plan",
    "per_minute": "requests per minute",
    "per_day": "requests per day",
}


class UsedFilter(ChoiceFilter):
    title = "used today"
    parameter_name = "used"
    offered = tuple((f"{share}", f"{share}% or more") for share in THRESHOLDS)

    def condition(self, chosen: str) -> Q:
        limit = Coalesce("per_day", "plan__per_day")
        reached = GreaterThanOrEqual(F("quota__day_used") * 100, limit * int(chosen))
        return Q(reached, quota__day=(timezone.now().date() - EPOCH).days)


@admin.register(Account)
class AccountAdmin(PastedKeyAdmin, SuspensionPages, WhatIfAdmin):  # type: ignore[misc]  # Unfold has no types.
    keys_lookup = "account"
    row_pages = {**WhatIfAdmin.row_pages, **SuspensionPages.row_pages}
    list_display = [
        "name", "state", "plan_badge", "today", "requests_per_minute", "requests_per_day", "created_at"
    ]  # fmt: skip
    list_filter = ["plan", UsedFilter, SuspendedFilter]
    list_select_related = ["plan", "quota"]
    search_fields = ["name"]  # See get_search_results.
    search_help_text = "A name, or the public id of an account or key"
    fields = [
        "name", "contact_email", "notes", "plan", "per_minute", "per_day", "public_id", "created_at"
    ]  # fmt: skip
    readonly_fields = ["public_id", "created_at"]
    instead_of_deleting = "Suspend it, and it can send nothing."

    def search(self, request: HttpRequest, rows: QuerySet[Account], term: str) -> QuerySet[Account]:
        """Return the accounts with this in the name, or whose public id, or a key's, begins so."""
        term = public_id_in(term) or term
        # A key's public id begins with its account's.
        if len(term) > key_text.ACCOUNT_ID_LENGTH:
            by_id = Q(Exists(ApiKey.objects.filter(account=OuterRef("pk"), public_id__startswith=term)))
        else:
            by_id = Q(public_id__startswith=term)
        return rows.filter(Q(name__icontains=term) | by_id)

    @display(description="state", label={"Suspended": "danger"})
    def state(self, account: Account) -> str:
        return "Suspended" if account.suspended_at else ""

    @display(description="plan", ordering="plan__per_day", label=PLAN_COLOURS)
    def plan_badge(self, account: Account) -> tuple[str, str]:
        return account.plan_id, str(account.plan)

    @display(description="used today")
    def today(self, account: Account) -> SafeString:
        return usage_bar(account.used_on(timezone.now().date()), account.limits.per_day)

    @admin.display(description="requests per minute")
    def requests_per_minute(self, account: Account) -> str:
        return f"{account.limits.per_minute:,}"

    @admin.display(description="requests per day")
    def requests_per_day(self, account: Account) -> str:
        return f"{account.limits.per_day:,}"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Account]:
        accounts: QuerySet[Account] = super().get_queryset(request)
        return accounts.select_related("plan", "quota")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for name in self.fields if obj or name not in self.readonly_fields]

    def beside_form(self, request: HttpRequest, row: Account | None) -> dict[str, Any]:
        # Read again: a form with a mistake has changed the one at hand.
        return {"panels": panels(self.get_queryset(request).get(pk=row.pk), request)} if row else {}


class Panel(NamedTuple):
    """What another app knows of an account: a panel, and its part in the timeline."""

    template: str
    rows: list[Any]
    entries: list[Entry]


# Each returns its panel, or None for who may not see it. Other apps append theirs.
more_panels: list[Callable[[Account, HttpRequest], Panel | None]] = []


def panels(account: Account, request: HttpRequest) -> dict[str, Any]:
    """Return all that the templates show, of what the member of staff may see. Each list is short."""
    now = timezone.now()
    sees_keys = may_view(request, "accounts.apikey")
    more = [panel for make in more_panels if (panel := make(account, request)) is not None]
    entries = of_keys(account) if sees_keys else []
    timeline = [*entries, *of_account(account), *(entry for panel in more for entry in panel.entries)]
    own = with_use_of_today(account.keys.select_related("standing"))
    keys = list(own[: KEYS_SHOWN + 1]) if sees_keys else []
    banned = own.filter(reports.banned_now(now))[:KEYS_SHOWN] if sees_keys else []
    return {
        "suspended": suspension(account),
        "plan_badge": {"type": PLAN_COLOURS[account.plan_id], "text": str(account.plan)},
        "today": usage_bar(account.used_on(now.date()), account.limits.per_day),
        "usage": usage_chart(account, now),
        "sees_keys": sees_keys,
        "sees_refusals": may_view(request, "accounts.refusal"),
        "may_issue": request.user.has_perm("accounts.add_apikey"),
        "may_suspend": request.user.has_perm("accounts.change_account"),
        "issue": f"{reverse('admin:accounts_apikey_add')}?account={account.pk}",
        "limits": account.limits,
        "keys": [shown(key, account, now) for key in keys[:KEYS_SHOWN]],
        "more_keys": len(keys) > KEYS_SHOWN,
        "banned": [shown(key, account, now) for key in banned],
        "bans": [entry for entry in entries if entry.icon in BANS.values()][:LATEST],
        "refusals": account.refusals.select_related("key")[:LATEST],
        "more": more,
        "timeline": sorted(timeline, key=lambda entry: entry.at, reverse=True)[:TIMELINE_SHOWN],
        "timeline_length": TIMELINE_SHOWN,
    }


def suspension(account: Account) -> str:
    if account.suspended_at is None:
        return ""
    since, why = exact(account.suspended_at), account.suspended_reason
    return f"Suspended since {since}, so all its keys are refused. The reason: {why}"


def shown(key: ApiKey, account: Account, now: datetime) -> dict[str, Any]:
    return {
        "key": key,
        "badge": state_badge(key, now),
        "last_use": age(key.last_used_at, now),
        "today": usage_bar(getattr(key, "requests_today", 0), account.limits.per_day),
    }


def usage_chart(account: Account, now: datetime) -> BarChart | None:
    days = reports.account_usage(account.pk, days=30, today=now.date())
    if not any(day.requests or day.refusals for day in days):
        return None
    labels = [f"{day.day:%Y-%m-%d}" for day in days]
    admitted = Series("Admitted", "--chart-1", [day.requests for day in days])
    refused = Series("Refused", "--chart-4", [day.refusals for day in days])
    title = "Use in the last 30 days"
    return BarChart(title, "requests", "Day", labels, [admitted, refused], newest_last=True)


def of_keys(account: Account) -> list[Entry]:
    """Return the newest that was done to its keys."""
    ids = account.keys.values_list(Cast("pk", CharField()))
    found = AuditEntry.objects.filter(model=ApiKey._meta.label_lower, object_id__in=ids, action__in=ICONS)
    newest = list(found[:TIMELINE_SHOWN])
    names = dict(ApiKey.objects.filter(pk__in={one.object_id for one in newest}).values_list("pk", "name"))
    return [
        Entry(
            one.at,
            f"Key {names.get(int(one.object_id)) or one.object_text}: {one.get_action_display().lower()}",
            one.actor_name,
            one.reason,
            link=reverse("admin:accounts_apikey_change", args=[one.object_id]),
            icon=ICONS[Action(one.action)],
        )
        for one in newest
    ]


def of_account(account: Account) -> Iterator[Entry]:
    """Yield what staff changed of the account itself, with old and new values."""
    for entry in AuditEntry.objects.about(account)[:TIMELINE_SHOWN]:
        changes = [
            changed(label, entry.before.get(name), entry.after[name], name)
            for name, label in FIELDS.items()
            if name in entry.after
        ]
        if entry.action == Action.ADDED:
            what, icon = f"Added, on {in_words('plan', entry.after.get('plan'))}", "add_business"
        elif entry.action in SUSPENSIONS:
            what, icon = entry.get_action_display(), SUSPENSIONS[Action(entry.action)]
        elif changes:
            what, icon = f"Changed {', '.join(changes)}", "speed"
        else:
            continue
        yield Entry(entry.at, what, entry.actor_name, entry.reason, icon=icon)


def changed(label: str, before: Any, after: Any, name: str) -> str:
    """Return a change in words; of what the trail hides, only that it changed."""
    hidden = after == HIDDEN_NEW
    return label if hidden else f"{label} from {in_words(name, before)} to {in_words(name, after)}"


def in_words(name: str, value: Any) -> str:
    if value in (None, ""):
        return "none"
    if name == "plan":
        return PlanCode(value).label if value in PlanCode.values else str(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
