"""Admin of accounts: list, account page with its panels, suspension, change of plan."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from django import forms
from django.contrib import admin
from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.db.models.lookups import GreaterThanOrEqual
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from accounts.admin.badges import PLAN_COLOURS, age, exact, state_badge, usage_bar
from accounts.admin.base import (
    LATEST,
    change_url,
    confirm_with_reason,
    may_be_id,
    reason_view,
    recent_requests,
    usage_chart,
    warn_if_unpublished,
    with_requests_today,
)
from accounts.admin.plans import number_field, what_if_view
from accounts.admin.timeline import BANS, TIMELINE_SHOWN, account_entries, key_entries, warning_entries
from accounts.events.warnings import THRESHOLDS
from accounts.keys import key_format
from accounts.models import EPOCH, Account, ApiKey, PlanCode, is_active
from accounts.usage import reports
from petstore.backoffice.changelist import ChoiceFilter
from petstore.backoffice.confirmation import Confirmation, ReasonForm
from petstore.backoffice.history import HistoryEntry
from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.backoffice.navigation import may_view
from petstore.backoffice.palette import MAX_RESULTS, PaletteCommand, SearchResult, phrase_argument
from petstore.backoffice.text import pluralize
from petstore.db.names import fold_text

KEYS_SHOWN = 20
SUSPEND = Confirmation(
    "Suspend this account?",
    "Suspend the account",
    "All its keys stop working: every request gets 403 account_suspended. "
    "Nothing is deleted, and the same keys work again once you lift the suspension.",
    danger=True,
)
LIFT = Confirmation(
    "Lift the suspension of this account?",
    "Lift the suspension",
    "Its keys work again with their next request, except those that are revoked, expired or banned.",
)
PLAN = Confirmation("Change the plan", "", "Takes effect with the next request. Usage so far still counts.")


class PaletteAction(NamedTuple):
    """An action on accounts that the command palette offers."""

    phrase: str
    icon: str
    permission: str
    page: str = ""  # The suffix of the URL name; issuing a key has a page of its own.
    condition: Q = Q()


ISSUE_KEY = PaletteAction("Issue a key for", "key", "accounts.add_apikey")
PALETTE_ACTIONS = (
    ISSUE_KEY,
    PaletteAction("Suspend", "pause_circle", "accounts.change_account", "suspend", Q(suspended_at=None)),
    PaletteAction(
        "Lift the suspension of", "play_circle", "accounts.change_account",
        "lift_suspension", Q(suspended_at__isnull=False),
    ),
)  # fmt: skip


class UsedFilter(ChoiceFilter):
    title = "used today"
    parameter_name = "used"
    options = tuple((f"{share}", f"{share}% or more") for share in THRESHOLDS)

    def condition(self, chosen: str) -> Q:
        limit = Coalesce("per_day", "plan__per_day")
        reached = GreaterThanOrEqual(F("quota__day_used") * 100 / int(chosen), limit)
        return Q(reached, quota__day=(timezone.now().date() - EPOCH).days)


class SuspendedFilter(ChoiceFilter):
    title = "state"
    parameter_name = "state"
    options = (("suspended", "Suspended"), ("active", "Not suspended"))

    def condition(self, chosen: str) -> Q:
        return Q(suspended_at__isnull=chosen == "active")


class PlanForm(ReasonForm):
    """`choice` is the value of the button that was pressed."""

    per_minute = number_field("Requests per minute, for Enterprise", required=False)
    per_day = number_field("Requests per day, for Enterprise", required=False)
    choice = forms.ChoiceField(choices=PlanCode.choices)


@admin.register(Account)
class AccountAdmin(PetstoreModelAdmin):
    row_pages = {
        "what-if/": "what_if",
        "suspend/": "suspend",
        "lift-suspension/": "lift_suspension",
        "change-plan/": "change_plan",
    }
    what_if_view = what_if_view
    list_display = ["visible_name", "state", "plan_badge", "today", "per_minute_now", "keys", "last_use"]
    list_filter = ["plan", UsedFilter, SuspendedFilter]
    search_fields = ["name"]  # Shows the search box; `search` builds the query.
    search_help_text = "A name, or the public ID of an account or key"
    # The plan of an existing account changes on a page that asks for the reason.
    fields = ["name", "contact_email", "notes", "public_id", "created_at"]
    new_fields = ["name", "contact_email", "notes", "plan", "per_minute", "per_day"]
    readonly_fields = ["public_id", "created_at"]
    deletion_hint = "Suspend it instead: its keys stop working."
    palette_commands = (PaletteCommand("add_business", "Add an account"),)

    def search(self, request: HttpRequest, rows: QuerySet[Account], term: str) -> QuerySet[Account]:
        # A key's public ID begins with its account's.
        if len(term) > key_format.ACCOUNT_ID_LENGTH:
            by_id = Q(Exists(ApiKey.objects.filter(account=OuterRef("pk"), public_id__startswith=term)))
        else:
            by_id = Q(public_id__startswith=term)
        return rows.filter(Q(name__search_key__contains=term) | by_id)

    def palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        for account in matching_accounts(term)[:MAX_RESULTS]:
            rank = 1 if fold_text(term) in map(fold_text, (account.name, account.public_id)) else 2
            about = f"Account, {account.plan}"
            yield SearchResult(rank, "storefront", str(account), about, change_url(account))
            if not account.suspended_at and request.user.has_perm(ISSUE_KEY.permission):
                yield action_result(ISSUE_KEY, account)
        for action in PALETTE_ACTIONS:
            name = phrase_argument(term, action.phrase)
            if name is not None and request.user.has_perm(action.permission):
                for account in matching_accounts(name).filter(action.condition)[:MAX_RESULTS]:
                    yield action_result(action, account)

    @display(description="state", label={"suspended": "danger", "banned": "danger", "active": "success"})
    def state(self, account: Account) -> tuple[str, str]:
        if account.suspended_at:
            return "suspended", "Suspended"
        banned = getattr(account, "banned_keys", 0)
        return ("banned", f"{pluralize(banned, 'key')} banned") if banned else ("active", "Active")

    @display(description="plan", ordering="plan__per_day", label=PLAN_COLOURS)
    def plan_badge(self, account: Account) -> tuple[str, str]:
        return account.plan_id, str(account.plan)

    @display(description="used today")
    def today(self, account: Account) -> SafeString:
        return usage_bar(account.get_requests_on(timezone.now().date()), account.limits.per_day)

    @display(description="per minute")
    def per_minute_now(self, account: Account) -> str:
        return f"{account.limits.per_minute:,}"

    @display(description="active keys")
    def keys(self, account: Account) -> int:
        number: int = getattr(account, "active_keys", 0)
        return number

    @display(description="last use")
    def last_use(self, account: Account) -> SafeString:
        return age(getattr(account, "last_used_at", None), timezone.now())

    @display(description="new key")
    def issue(self, account: Account) -> SafeString | str:
        if account.suspended_at:
            return ""
        return link(account, issue_url(account), "Issue a key")

    @display(description="other plan")
    def other_plan(self, account: Account) -> SafeString:
        page = reverse("admin:accounts_account_change_plan", args=[account.pk])
        return link(account, page, "Change the plan")

    def get_list_display(self, request: HttpRequest) -> Any:
        issues = ["issue"] if request.user.has_perm("accounts.add_apikey") else []
        changes = ["other_plan"] if self.has_change_permission(request) else []
        return [*self.list_display, *issues, *changes]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Account]:
        accounts: QuerySet[Account] = super().get_queryset(request)
        now = timezone.now()
        keys = ApiKey.objects.filter(account=OuterRef("pk")).order_by().values("account")

        def number(condition: Q) -> Coalesce:
            matching = keys.filter(condition).annotate(number=Count("pk")).values("number")
            return Coalesce(Subquery(matching), 0)

        return accounts.select_related("plan", "quota").annotate(
            active_keys=number(is_active(now)),
            banned_keys=number(reports.is_banned(now)),
            last_used_at=Subquery(keys.annotate(last=Max("last_used_at")).values("last")),
        )

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj else self.new_fields

    def form_context(self, request: HttpRequest, row: Account | None) -> dict[str, Any]:
        # Read again: an invalid form has already changed this instance.
        return {"panels": panels(self.get_queryset(request).get(pk=row.pk), request)} if row else {}

    def response_change(self, request: HttpRequest, obj: Account) -> HttpResponse:
        warn_if_unpublished(self, request, obj)
        return super().response_change(request, obj)

    suspend_view = reason_view(SUSPEND, Account.suspend, "{} is suspended.")
    lift_suspension_view = reason_view(LIFT, Account.lift_suspension, "The suspension of {} is lifted.")

    def change_plan_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        account = self.row(request, object_id, self.has_change_permission)

        def change_plan(account: Account, **given: Any) -> None:
            account.change_plan(PlanCode(given.pop("choice")), **given)

        message = "{0} is now on {0.plan}: {0.limits.per_minute:,} requests per minute and "
        message += "{0.limits.per_day:,} per day."
        choices = [(plan.value, f"Move to {plan.label}") for plan in PlanCode if plan != account.plan_id]
        if account.plan_id == PlanCode.ENTERPRISE:
            choices.append((PlanCode.ENTERPRISE.value, "Set these limits"))
        context = self.question_context(account) | {"form_class": PlanForm, "choices": choices}
        return confirm_with_reason(
            self, request, account, PLAN, method=change_plan, message=message, **context
        )

    def question_context(self, account: Account) -> dict[str, Any]:
        now = timezone.now()
        suspension = {
            "Suspended since": exact(account.suspended_at),
            "Reason for the suspension": account.suspended_reason,
        } if account.suspended_at else {}  # fmt: skip
        limits = account.limits
        facts = {
            "Plan": account.plan,
            "Requests per minute": f"{limits.per_minute:,}",
            "Requests per day": f"{limits.per_day:,}",
            "Active keys": account.keys.filter(is_active(now)).count(),
            **recent_requests(now, key__account=account),
            **suspension,
        }
        return {"about": str(account), "facts": facts}


def matching_accounts(term: str) -> QuerySet[Account]:
    found = Q(name__search_key__contains=term) | Q(contact_email__search_key__contains=term)
    if may_be_id(term):
        found |= Q(public_id__startswith=term)
    return Account.objects.filter(found).select_related("plan").order_by("name")


def action_result(action: PaletteAction, account: Account) -> SearchResult:
    if action.page:
        link, about = reverse(f"admin:accounts_account_{action.page}", args=[account.pk]), ""
    else:
        link = issue_url(account)
        about = "Suspended: lift the suspension first" if account.suspended_at else ""
    return SearchResult(3, action.icon, f"{action.phrase} {account}", about, link)


def issue_url(account: Account) -> str:
    return f"{reverse('admin:accounts_apikey_add')}?account={account.pk}"


class Panel(NamedTuple):
    """A panel that another app adds to the account page, with entries for the timeline."""

    template: str
    rows: list[Any]
    entries: list[HistoryEntry]


# Other apps append to this. Each returns its panel, or None without permission to view it.
more_panels: list[Callable[[Account, HttpRequest], Panel | None]] = []


def panels(account: Account, request: HttpRequest) -> dict[str, Any]:
    """Build the template context of the panels that this member of staff may see."""
    now = timezone.now()
    sees_keys = may_view(request, "accounts.apikey")
    more = [panel for make in more_panels if (panel := make(account, request)) is not None]
    sees_events = may_view(request, "accounts.event")
    entries = key_entries(account) if sees_keys else []
    timeline = [*entries, *account_entries(account), *(warning_entries(account) if sees_events else [])]
    timeline += (entry for panel in more for entry in panel.entries)
    own = with_requests_today(account.keys.select_related("standing"))
    keys = list(own[: KEYS_SHOWN + 1]) if sees_keys else []
    banned = own.filter(reports.is_banned(now))[:KEYS_SHOWN] if sees_keys else []
    return {
        "name": str(account),
        "suspended": suspension(account),
        "plan_badge": {"type": PLAN_COLOURS[account.plan_id], "text": str(account.plan)},
        "today": usage_bar(account.get_requests_on(now.date()), account.limits.per_day),
        "usage": usage_chart(now, key__account=account),
        "sees_keys": sees_keys,
        "sees_events": sees_events,
        "sees_refusals": may_view(request, "accounts.refusal"),
        "may_issue": request.user.has_perm("accounts.add_apikey") and not account.suspended_at,
        "may_change": request.user.has_perm("accounts.change_account"),
        "issue": issue_url(account),
        "limits": account.limits,
        "keys": [key_row(key, account, now) for key in keys[:KEYS_SHOWN]],
        "more_keys": len(keys) > KEYS_SHOWN,
        "banned": [key_row(key, account, now) for key in banned],
        "bans": [entry for entry in entries if entry.icon in BANS.values()][:LATEST],
        "refusals": account.refusals.select_related("key")[:LATEST],
        "more": more,
        "timeline": sorted(timeline, key=lambda entry: entry.at, reverse=True)[:TIMELINE_SHOWN],
        "timeline_length": TIMELINE_SHOWN,
    }


def link(account: Account, page: str, text: str) -> SafeString:
    # The label tells screen readers which account the link belongs to.
    html = '<a class="office-link" href="{}" aria-label="{}: {}">{}</a>'
    return format_html(html, page, text, account, text)


def suspension(account: Account) -> str:
    if account.suspended_at is None:
        return ""
    since, reason = exact(account.suspended_at), account.suspended_reason
    return f"Suspended since {since}: all its keys are refused. Reason: {reason}"


def key_row(key: ApiKey, account: Account, now: datetime) -> dict[str, Any]:
    return {
        "key": key,
        "badge": state_badge(key, now),
        "last_use": age(key.last_used_at, now),
        "today": usage_bar(getattr(key, "requests_today", 0), account.limits.per_day),
    }
