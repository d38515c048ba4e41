"""Admin of plans, and the what-if page for plans and accounts."""

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from unfold.decorators import display
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldBooleanWidget

from accounts.admin.badges import PLAN_COLOURS
from accounts.admin.base import warn_if_unpublished
from accounts.models import Account, ApiKey, Plan, PlanCode, is_active
from accounts.models.plans import MAX_REQUESTS
from accounts.quota.limits import Limits
from accounts.usage import reports
from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.backoffice.text import pluralize

NUMBERS = ("per_minute", "per_day")
DAYS = 30


def number_field(label: str, *, required: bool = True) -> forms.IntegerField:
    widget = UnfoldAdminIntegerFieldWidget
    return forms.IntegerField(
        label=label, required=required, min_value=1, max_value=MAX_REQUESTS, widget=widget
    )


class LimitsForm(forms.Form):
    per_minute = number_field("Requests per minute")
    per_day = number_field("Requests per day")


def what_if_view(self: PetstoreModelAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
    """Simulate other limits on the recorded traffic of a plan or an account."""
    row = self.row(request, object_id)
    limits: Limits | None = row.limits
    data = request.GET if LimitsForm.base_fields.keys() & request.GET.keys() else None
    form = LimitsForm(data, initial=limits._asdict() if limits else None)
    result = {}
    if form.is_valid():
        other = Limits(**form.cleaned_data)
        found = reports.simulate_limits(row, other, days=DAYS)
        result = {
            "found": found, "summary": describe_comparison(found), "rows": rows(found, other, limits),
        }  # fmt: skip
    title = f"Try other limits for {row}"
    return self.page(request, "accounts/what_if", title, whose=row, form=form, **result)


def rows(found: reports.Simulation, other: Limits, limits: Limits | None) -> list[tuple[str, str, str]]:
    """Build the table. Without current `limits`, each account has its own."""
    minute, day = (f"{limits.per_minute:,}", f"{limits.per_day:,}") if limits else ("its own", "its own")
    share = f"{found.rejected / found.requests:.1%}" if found.requests else "0%"
    return [
        ("Requests per minute", minute, f"{other.per_minute:,}"),
        ("Requests per day", day, f"{other.per_day:,}"),
        ("Refused", f"{found.rejected_now:,}", f"{found.rejected:,} ({share})"),
        ("of these, by the minute limit", "", f"{found.rejected_by_minute:,}"),
        ("of these, by the daily limit", "", f"{found.rejected_by_day:,}"),
        ("Accounts refused at least once", "", f"{found.accounts_rejected:,} of {found.accounts:,}"),
    ]


def describe_comparison(found: reports.Simulation) -> str:
    difference = found.rejected - found.rejected_now
    if not found.requests:
        text = f"No requests were recorded in the last {found.days} days. "
        return f"{text}The last few seconds and requests during a ban are not included."
    if not difference:
        return "These limits would have refused as many requests as the current ones."
    number = f"{abs(difference):,} {'more' if difference > 0 else 'fewer'} requests"
    return f"These limits would have refused {number} than the current ones."


class PlanForm(forms.ModelForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    """A change of limits needs confirmation if any account is on the plan."""

    confirmed = forms.BooleanField(required=False, widget=UnfoldBooleanWidget)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        keys = ApiKey.objects.filter(is_active(timezone.now()), account__plan=self.instance)
        self.accounts = Account.objects.filter(plan=self.instance).count()
        self.reach = f"{pluralize(self.accounts, 'account')} with {pluralize(keys.count(), 'active key')}"
        if "confirmed" in self.fields:
            confirmed = self.fields["confirmed"]
            confirmed.label = f"Change the limits of {self.reach}"
            confirmed.help_text = "New limits take effect immediately. Usage so far still counts."
        for name in set(NUMBERS) & set(self.fields):  # Enterprise is read-only.
            self.fields[name].required = True

    def clean_confirmed(self) -> bool:
        confirmed: bool = self.cleaned_data["confirmed"]
        if self.accounts and set(NUMBERS) & set(self.changed_data) and not confirmed:
            raise ValidationError(f"This changes the limits of {self.reach}. Tick the box to confirm.")
        return confirmed


@admin.register(Plan)
class PlanAdmin(PetstoreModelAdmin):
    """The four plans are fixed. Enterprise has no limits of its own: each account has."""

    row_pages = {"what-if/": "what_if"}
    what_if_view = what_if_view
    can_add = can_delete = False
    form = PlanForm
    list_display = ["badge", "requests_per_minute", "requests_per_day", "accounts_on_it"]
    readonly_fields = ["code"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Plan]:
        plans: QuerySet[Plan] = super().get_queryset(request)
        return plans.annotate(number_of_accounts=Count("account"))

    @display(description="plan", ordering="code", label=PLAN_COLOURS)
    def badge(self, plan: Plan) -> tuple[str, str]:
        return plan.code, str(plan)

    @display(description="requests per minute", ordering="per_minute", empty_value="-")
    def requests_per_minute(self, plan: Plan) -> str | None:
        return f"{plan.per_minute:,}" if plan.per_minute else None

    @display(description="requests per day", ordering="per_day", empty_value="-")
    def requests_per_day(self, plan: Plan) -> str | None:
        return f"{plan.per_day:,}" if plan.per_day else None

    @display(description="accounts", ordering="number_of_accounts")
    def accounts_on_it(self, plan: Plan) -> str:
        return f"{getattr(plan, 'number_of_accounts', 0):,}"

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        asks = obj is not None and self.has_change_permission(request, obj)
        return ["code", *NUMBERS, *(["confirmed"] if asks else [])]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if set(NUMBERS) & set(form.changed_data):
            self.message_user(request, f"The new limits now apply to {form.reach}.")

    def response_change(self, request: HttpRequest, obj: Plan) -> HttpResponse:
        warn_if_unpublished(self, request, obj)
        return super().response_change(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        custom = obj is not None and obj.code == PlanCode.ENTERPRISE
        return super().has_change_permission(request, obj) and not custom
