"""Admin of accounts, with pages that suspend an account or change its plan."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.views.main import SEARCH_VAR
from django.contrib.auth.context_processors import PermWrapper
from django.db.models import Case, Count, Exists, F, Max, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce
from django.db.models.lookups import GreaterThanOrEqual
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.decorators import display

from accounts.admin import members, webhooks
from accounts.admin.account_panels import build_panels
from accounts.admin.badges import PLAN_COLOURS, render_age, render_usage_bar
from accounts.admin.base import (
    count_recent_requests,
    is_id_prefix,
    issue_key_url,
    make_link_column,
)
from accounts.admin.plans import build_limit_field, what_if_view
from accounts.events.warnings import THRESHOLDS
from accounts.keys import key_format
from accounts.models import EPOCH, Account, Actor, ApiKey, Plan, PlanCode
from accounts.quota.limits import to_microseconds
from accounts.usage import reports
from petstore.audit.forms import ActionForm, ReasonForm
from petstore.backoffice.changelist import ChoiceFilter
from petstore.backoffice.confirmation import ActionFormsMixin
from petstore.backoffice.model_admin import change_url, page_url
from petstore.backoffice.palette import MAX_RESULTS, PaletteCommand, SearchResult, list_result
from petstore.db.names import fold_text
from petstore.text import format_count, format_time

MAX_NEWEST_KEYS = 100  # Of an account, among which its last use is looked for.
LINKS_TEMPLATE = "admin/accounts/account/links.html"
MAY_ISSUE = "accounts.add_apikey"


class UsageFilter(ChoiceFilter):
    title = "used today"
    parameter_name = "used"
    options = tuple((str(percentage), f"{percentage}% or more") for percentage in THRESHOLDS)

    def get_condition(self, chosen: str) -> Q:
        limit = Coalesce("per_day", "plan__per_day")
        is_reached = GreaterThanOrEqual(F("usage__day_used") * 100 / int(chosen), limit)
        return Q(is_reached, usage__day=count_days(timezone.now()))


class SuspensionFilter(ChoiceFilter):
    title = "state"
    parameter_name = "state"
    options = (("suspended", "Suspended"), ("active", "Not suspended"))

    def get_condition(self, chosen: str) -> Q:
        return Q(suspended_at__isnull=chosen == "active")


class SuspendForm(ReasonForm):
    verb = "suspend"
    title = "Suspend this account?"
    button = "Suspend the account"
    warning = (
        "All its keys stop working: every request gets 403 account_suspended. "
        "Nothing is deleted, and the same keys work again once you lift the suspension."
    )
    danger = True
    success = "{} has been suspended."


class LiftSuspensionForm(ReasonForm):
    verb = "lift_suspension"
    title = "Lift the suspension of this account?"
    button = "Lift the suspension"
    warning = (
        "Its keys work again with their next request, except those that are revoked, expired or banned."
    )
    success = "The suspension of {} has been lifted."


class ChangePlanForm(ReasonForm):
    """`choice` is the value of the button that was pressed."""

    verb = "change_plan"
    title = "Change the plan"
    warning = "Takes effect with the next request. Usage so far still counts."
    success = (
        "{0} is now on {0.plan}: {0.limits.per_minute:,} requests a minute, {0.limits.per_day:,} a day."
    )
    per_minute = build_limit_field("Requests per minute, for Enterprise", required=False)
    per_day = build_limit_field("Requests per day, for Enterprise", required=False)
    choice = forms.ChoiceField(choices=PlanCode.choices)

    def save(self, by: Actor) -> None:
        plan = PlanCode(self.cleaned_data.pop("choice"))
        self.row.change_plan(plan, **self.cleaned_data, by=by)


@admin.register(Account)
class AccountAdmin(ActionFormsMixin):
    action_forms = (SuspendForm, LiftSuspensionForm, ChangePlanForm, *members.FORMS, *webhooks.FORMS)
    pages = {"<path:object_id>/what-if/": ("what_if", "view")}
    what_if_view = what_if_view
    list_display = [
        "visible_name", "state", "plan_badge", "usage_today", "per_minute_limit", "active_keys", "last_use",
    ]  # fmt: skip
    list_filter = ["plan", UsageFilter, SuspensionFilter]
    search_fields = ["name"]  # Shows the search box; `search` builds the query.
    search_help_text = "A name, or the public ID of an account or key"
    # The plan of an existing account changes on a page that asks for the reason.
    fields = ["name", "contact_email", "notes", "public_id", "created_at"]
    add_fields = ["name", "contact_email", "notes", "plan", "per_minute", "per_day"]
    readonly_fields = ["public_id", "created_at"]
    deletion_hint = "Suspend it instead: its keys stop working."
    palette_commands = (PaletteCommand("add_business", "Add an account"),)
    row_commands = {"Suspend": "active", "Unsuspend": "suspended"}

    # --- The list

    def get_queryset(self, request: HttpRequest) -> QuerySet[Account]:
        accounts: QuerySet[Account] = super().get_queryset(request)
        now = timezone.now()
        keys = ApiKey.objects.filter(account=OuterRef("pk")).order_by().values("account")
        newest = ApiKey.objects.filter(account=OuterRef(OuterRef("pk"))).order_by("-pk").values("pk")
        newest_keys = keys.filter(pk__in=newest[:MAX_NEWEST_KEYS])

        def count_active(**conditions: Any) -> Combinable:
            """Count in one range of an index for each condition, so that ended keys cost nothing."""
            active = keys.filter(revoked_at=None, **conditions).annotate(count=Count("pk")).values("count")
            endless, unexpired = active.filter(expires_at=None), active.filter(expires_at__gt=now)
            return Coalesce(Subquery(endless), 0) + Coalesce(Subquery(unexpired), 0)

        return (
            accounts.select_related("plan")
            .prefetch_related("usage")
            .annotate(
                requests_today=Case(When(usage__day=count_days(now), then="usage__day_used"), default=0),
                active_key_count=count_active(),
                banned_key_count=count_active(rate_limit_state__banned_until__gt=to_microseconds(now)),
                last_used_at=Subquery(newest_keys.annotate(latest=Max("last_used_at")).values("latest")),
            )
        )

    def get_list_display(self, request: HttpRequest) -> Any:
        perms = PermWrapper(request.user)
        if MAY_ISSUE not in perms and not self.has_change_permission(request):
            return self.list_display
        return [*self.list_display, make_link_column(LINKS_TEMPLATE, lambda account: {"perms": perms})]

    def search(self, request: HttpRequest, rows: QuerySet[Account], term: str) -> QuerySet[Account]:
        # A key's public ID begins with its account's.
        has_id = Q(public_id__startswith=term)
        if len(term) > key_format.ACCOUNT_ID_LENGTH:
            has_id = Q(Exists(ApiKey.objects.filter(account=OuterRef("pk"), public_id__startswith=term)))
        return rows.filter(Q(name__search_key__contains=term) | has_id)

    @display(description="state", label={"suspended": "danger", "banned": "danger", "active": "success"})
    def state(self, account: Account) -> tuple[str, str]:
        if account.suspended_at:
            return "suspended", "Suspended"
        if banned_keys := getattr(account, "banned_key_count", 0):
            return "banned", f"{format_count(banned_keys, 'key')} banned"
        return "active", "Active"

    @display(description="plan", ordering="plan__per_day", label=PLAN_COLOURS)
    def plan_badge(self, account: Account) -> tuple[str, str]:
        return account.plan_id, str(account.plan)

    @display(description="used today", ordering="requests_today")
    def usage_today(self, account: Account) -> SafeString:
        return render_usage_bar(account.get_request_count(timezone.now().date()), account.limits.per_day)

    @display(description="per minute")
    def per_minute_limit(self, account: Account) -> str:
        return f"{account.limits.per_minute:,}"

    @display(description="active keys")
    def active_keys(self, account: Account) -> str:
        return f"{getattr(account, 'active_key_count', 0):,}"

    @display(description="last used")
    def last_use(self, account: Account) -> SafeString:
        return render_age(getattr(account, "last_used_at", None), timezone.now())

    # --- The command palette

    def get_palette_results(self, request: HttpRequest, term: str) -> Iterator[SearchResult]:
        condition = Q(name__search_key__contains=term) | Q(contact_email__search_key__contains=term)
        if is_id_prefix(term):
            condition |= Q(public_id__startswith=term)
        accounts = Account.objects.filter(condition).select_related("plan").order_by("name")
        for account in (found := list(accounts[: MAX_RESULTS + 1]))[:MAX_RESULTS]:
            is_exact = fold_text(term) in (fold_text(account.name), fold_text(account.public_id))
            rank, description = 1 if is_exact else 2, f"Account, {account.plan}"
            yield SearchResult(rank, "storefront", str(account), description, change_url(account))
            if not account.suspended_at and request.user.has_perm(MAY_ISSUE):
                yield SearchResult(3, "key", f"Issue a key for {account}", "", issue_key_url(account))
        if len(found) > MAX_RESULTS:
            yield list_result("All accounts that match", Account, {SEARCH_VAR: term})

    # --- The form

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj else self.add_fields

    def get_form_context(self, request: HttpRequest, row: Account | None) -> dict[str, Any]:
        if row is None:
            return {}
        # An invalid form leaves its values on `row`, but the panels show what is stored.
        stored = self.get_queryset(request).get(pk=row.pk)
        return {"panels": build_panels(stored, request)}

    def response_post_save_add(self, request: HttpRequest, obj: Account) -> HttpResponseRedirect:
        """Show the account, where its first key is issued."""
        if self.has_view_permission(request, obj):
            return HttpResponseRedirect(change_url(obj))
        return super().response_post_save_add(request, obj)

    # --- The pages that suspend an account or change its plan

    def respond(self, request: HttpRequest, form: ActionForm, obj: Account, result: Any) -> HttpResponse:
        """Show an invitation's link in the response to the POST, so that it is not stored anywhere."""
        if form.verb != "invite":
            return super().respond(request, form, obj, result)
        context = {"object": obj, "back": change_url(obj), "invitation": result[0], "link": result[1]}
        return self.render_page(request, "accounts/account/invited", "Copy the link now", **context)

    def get_confirmation_context(self, account: Account) -> dict[str, Any]:
        """Describe the account on the confirmation pages."""
        now = timezone.now()
        details = {
            "Plan": f"{account.plan} (custom limits)" if account.per_day else account.plan,
            "Requests per minute": f"{account.limits.per_minute:,}",
            "Requests per day": f"{account.limits.per_day:,}",
            "Active keys": ApiKey.objects.active_since(account, now).count(),
            **count_recent_requests(now, key__pk__any_of=reports.find_recent_keys(account, now)),
        }
        if account.suspended_at:
            details["Suspended since"] = format_time(account.suspended_at)
            details["Reason for the suspension"] = account.suspended_reason
        return {
            "description": str(account),
            "details": details,
            "choices": [build_plan_choice(plan, account) for plan in Plan.objects.all()],
            "what_if_url": page_url(account, "what_if"),
        }


def build_plan_choice(plan: Plan, account: Account) -> tuple[str, str, str]:
    """Return value, label and limits of a button. The value is empty if it would change nothing."""
    is_current = plan.pk == account.plan_id
    limits = account.limits if is_current else plan.limits
    text = f"{limits.per_minute:,} per minute, {limits.per_day:,} per day" if limits else "The limits above"
    if not is_current:
        return plan.pk, f"Move to {plan}", text
    if plan.pk == PlanCode.ENTERPRISE:
        return plan.pk, "Set these limits", f"Current plan, now {text}"
    return "", f"{plan}, the current plan", text


def count_days(now: datetime) -> int:
    """Count the days since EPOCH, like QuotaUsage."""
    return (now.date() - EPOCH).days
