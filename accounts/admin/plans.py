"""Admin of plans, and the what-if page for plans and accounts."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from unfold.decorators import display

from accounts.admin.badges import PLAN_COLOURS
from accounts.models import Account, ApiKey, Plan, PlanCode, active_keys_q
from accounts.models.plans import MAX_REQUEST_LIMIT
from accounts.quota.limits import Limits
from accounts.usage import reports
from petstore.backoffice.forms import EditForm
from petstore.backoffice.model_admin import PetstoreModelAdmin
from petstore.text import format_count

LIMIT_FIELDS = ("per_minute", "per_day")
WHAT_IF_DAYS = 30


def build_limit_field(label: str, *, required: bool = True) -> forms.IntegerField:
    return forms.IntegerField(label=label, required=required, min_value=1, max_value=MAX_REQUEST_LIMIT)


class LimitsForm(forms.Form):
    per_minute = build_limit_field("Requests per minute")
    per_day = build_limit_field("Requests per day")


def what_if_view(self: PetstoreModelAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
    """Simulate other limits on the recorded traffic of a plan or an account."""
    obj = self.get_permitted_object(request, object_id)
    is_submitted = bool(LimitsForm.base_fields.keys() & request.GET.keys())
    initial = obj.limits._asdict() if obj.limits else None
    form = LimitsForm(request.GET if is_submitted else None, initial=initial)
    context: dict[str, Any] = {"object": obj, "form": form}
    if form.is_valid():
        limits = Limits(**form.cleaned_data)
        simulation = reports.simulate_limits(obj, limits, days=WHAT_IF_DAYS)
        context |= {"limits": limits, "simulation": simulation}
        if simulation.requests:
            context["share"] = f"{simulation.other.total / simulation.requests:.1%}"
    return self.render_page(request, "accounts/what_if", f"Try other limits for {obj}", **context)


class PlanForm(EditForm):
    """Requires confirmation to change the limits of a plan that has accounts."""

    confirmed = forms.BooleanField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        keys = ApiKey.objects.filter(active_keys_q(timezone.now()), account__plan=self.instance).count()
        self.accounts = Account.objects.filter(plan=self.instance).count()
        self.affected = f"{format_count(self.accounts, 'account')} with {format_count(keys, 'active key')}"
        if "confirmed" in self.fields:
            confirmed = self.fields["confirmed"]
            confirmed.label = f"Change the limits of {self.affected}"
            confirmed.help_text = "New limits take effect immediately. Usage so far still counts."
        for name in LIMIT_FIELDS:
            if name in self.fields:  # Absent from read-only forms.
                self.fields[name].required = True

    def has_changed_limits(self) -> bool:
        return any(name in self.changed_data for name in LIMIT_FIELDS)

    def clean_confirmed(self) -> bool:
        confirmed: bool = self.cleaned_data["confirmed"]
        if self.accounts and self.has_changed_limits() and not confirmed:
            text = f"This changes the limits of {self.affected}. Select the checkbox to confirm."
            raise ValidationError(text)
        return confirmed


@admin.register(Plan)
class PlanAdmin(PetstoreModelAdmin):
    """The four plans are fixed. Enterprise is read-only, since its limits are set per account."""

    pages = {"<path:object_id>/what-if/": ("what_if", "view")}
    what_if_view = what_if_view
    can_add = can_delete = False
    form = PlanForm
    list_display = ["badge", "requests_per_minute", "requests_per_day", "accounts"]
    readonly_fields = ["code"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Plan]:
        plans: QuerySet[Plan] = super().get_queryset(request)
        return plans.annotate(account_count=Count("account"))

    @display(description="plan", ordering="code", label=PLAN_COLOURS)
    def badge(self, plan: Plan) -> tuple[str, str]:
        return plan.code, str(plan)

    @display(description="requests per minute", ordering="per_minute", empty_value="-")
    def requests_per_minute(self, plan: Plan) -> str | None:
        return f"{plan.per_minute:,}" if plan.per_minute else None

    @display(description="requests per day", ordering="per_day", empty_value="-")
    def requests_per_day(self, plan: Plan) -> str | None:
        return f"{plan.per_day:,}" if plan.per_day else None

    @display(description="accounts", ordering="account_count")
    def accounts(self, plan: Plan) -> str:
        return f"{getattr(plan, 'account_count', 0):,}"

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        may_change = obj is not None and self.has_change_permission(request, obj)
        return ["code", *LIMIT_FIELDS, *(["confirmed"] if may_change else [])]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if form.has_changed_limits():
            text = f"The new limits now apply to {form.affected}."
            self.message_user(request, text, messages.SUCCESS)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_enterprise = obj is not None and obj.code == PlanCode.ENTERPRISE
        return super().has_change_permission(request, obj) and not is_enterprise
