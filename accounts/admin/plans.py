"""Plans in the back office."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Count, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from unfold.decorators import display
from unfold.widgets import UnfoldBooleanWidget

from accounts.admin.badges import PLAN_COLOURS
from accounts.admin.unpublished import WarnsIfUntold
from accounts.admin.what_if import answer, form_of
from accounts.limits import Limits
from accounts.models import Account, ApiKey, Plan, PlanCode

NUMBERS = ("per_minute", "per_day")


@dataclass(frozen=True)
class Reach:
    """Who is on a plan."""

    accounts: int
    active_keys: int

    def __str__(self) -> str:
        accounts = "1 account" if self.accounts == 1 else f"{self.accounts:,} accounts"
        keys = "1 active key" if self.active_keys == 1 else f"{self.active_keys:,} active keys"
        return f"{accounts} with {keys}"

    @classmethod
    def of(cls, plan: Plan) -> Reach:
        """Count."""
        alive = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
        keys = ApiKey.objects.filter(alive, revoked_at=None, account__plan=plan)
        return cls(Account.objects.filter(plan=plan).count(), keys.count())


class PlanForm(forms.ModelForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    """The numbers of a plan, and a tick that says for whom they change."""

    confirmed = forms.BooleanField(required=False, widget=UnfoldBooleanWidget)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reach = Reach.of(self.instance)
        if "confirmed" in self.fields:
            asked = self.fields["confirmed"]
            asked.label = f"Change the limits of {self.reach}"
            asked.help_text = "They hold from the next request on; what was used stays used."
        for name in set(NUMBERS) & set(self.fields):  # Enterprise may have none, and has no form.
            self.fields[name].required = True

    def clean_confirmed(self) -> bool:
        """Ask before other people's limits change."""
        confirmed: bool = self.cleaned_data["confirmed"]
        if self.reach.accounts and set(NUMBERS) & set(self.changed_data) and not confirmed:
            raise ValidationError(f"This changes the limits of {self.reach}. Tick the box to confirm it.")
        return confirmed


@admin.register(Plan)
class PlanAdmin(WarnsIfUntold):
    """The contract's four plans: their numbers may change, but Enterprise has none of its own."""

    form = PlanForm
    keys_lookup = "account__plan"
    list_display = ["badge", "per_minute", "per_day", "accounts_on_it"]
    readonly_fields = ["code"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Plan]:
        """Add how many accounts are on each plan."""
        plans: QuerySet[Plan] = super().get_queryset(request)
        return plans.annotate(number_of_accounts=Count("account"))

    @display(description="plan", ordering="code", label=PLAN_COLOURS)
    def badge(self, plan: Plan) -> tuple[str, str]:
        """Return the plan, for its colour and in words."""
        return plan.code, str(plan)

    @display(description="accounts", ordering="number_of_accounts")
    def accounts_on_it(self, plan: Plan) -> int:
        """Return how many accounts are on the plan."""
        number: int = getattr(plan, "number_of_accounts", 0)
        return number

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Ask for confirmation where there is something to change."""
        asks = obj is not None and self.has_change_permission(request, obj)
        return ["code", *NUMBERS, *(["confirmed"] if asks else [])]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save, and say for whom."""
        super().save_model(request, obj, form, change)
        if set(NUMBERS) & set(form.changed_data):
            self.message_user(request, f"The new limits hold for {form.reach}, from their next request on.")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Forbid a fifth plan."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Forbid to delete a plan."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Forbid to give Enterprise numbers."""
        custom = obj is not None and obj.code == PlanCode.ENTERPRISE
        return super().has_change_permission(request, obj) and not custom

    # --- What other numbers would have refused

    def get_urls(self) -> list[URLPattern]:
        """Add the page that asks."""
        view = self.admin_site.admin_view(self.what_if_view)
        return [path("<path:object_id>/what-if/", view, name="accounts_plan_what_if"), *super().get_urls()]

    def what_if_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for two numbers, and say what they would have refused to the accounts on this plan."""
        plan = self.get_object(request, unquote(object_id))
        if plan is None:
            raise Http404
        if not self.has_view_permission(request, plan):
            raise PermissionDenied
        limits = Limits(plan.per_minute, plan.per_day) if plan.per_minute and plan.per_day else None
        form = form_of(request, limits)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"What if {plan} had other numbers?",
            "whose": plan,
            "form": form,
            **answer(form, plan, limits),
        }
        request.current_app = self.admin_site.name  # As every page of the admin does.
        return TemplateResponse(request, "admin/accounts/what_if.html", context)
