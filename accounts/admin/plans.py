"""Plans in the back office."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.decorators import display
from unfold.widgets import UnfoldBooleanWidget

from accounts.admin.badges import PLAN_COLOURS
from accounts.admin.what_if import WhatIfAdmin
from accounts.models import Account, ApiKey, Plan, PlanCode
from petstore.backoffice.wording import counted

NUMBERS = ("per_minute", "per_day")


class PlanForm(forms.ModelForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    """The numbers of a plan, and a tick that says for whom they change."""

    confirmed = forms.BooleanField(required=False, widget=UnfoldBooleanWidget)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        alive = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
        keys = ApiKey.objects.filter(alive, revoked_at=None, account__plan=self.instance)
        self.accounts = Account.objects.filter(plan=self.instance).count()
        self.reach = f"{counted(self.accounts, 'account')} with {counted(keys.count(), 'active key')}"
        if "confirmed" in self.fields:
            asked = self.fields["confirmed"]
            asked.label = f"Change the limits of {self.reach}"
            asked.help_text = "They hold from the next request on; what was used stays used."
        for name in set(NUMBERS) & set(self.fields):  # Enterprise may have none, and has no form.
            self.fields[name].required = True

    def clean_confirmed(self) -> bool:
        """Ask before other people's limits change."""
        confirmed: bool = self.cleaned_data["confirmed"]
        if self.accounts and set(NUMBERS) & set(self.changed_data) and not confirmed:
            raise ValidationError(f"This changes the limits of {self.reach}. Tick the box to confirm it.")
        return confirmed


@admin.register(Plan)
class PlanAdmin(WhatIfAdmin):
    """The contract's four plans: their numbers may change, but Enterprise has none."""

    can_add = can_delete = False
    form = PlanForm
    keys_lookup = "account__plan"
    reported_as = "plan"
    list_display = ["badge", "per_minute", "per_day", "accounts_on_it"]
    readonly_fields = ["code"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Plan]:
        plans: QuerySet[Plan] = super().get_queryset(request)
        return plans.annotate(number_of_accounts=Count("account"))

    @display(description="plan", ordering="code", label=PLAN_COLOURS)
    def badge(self, plan: Plan) -> tuple[str, str]:
        return plan.code, str(plan)

    @display(description="accounts", ordering="number_of_accounts")
    def accounts_on_it(self, plan: Plan) -> int:
        number: int = getattr(plan, "number_of_accounts", 0)
        return number

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        asks = obj is not None and self.has_change_permission(request, obj)
        return ["code", *NUMBERS, *(["confirmed"] if asks else [])]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if set(NUMBERS) & set(form.changed_data):
            self.message_user(request, f"The new limits hold for {form.reach}, from their next request on.")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        custom = obj is not None and obj.code == PlanCode.ENTERPRISE
        return super().has_change_permission(request, obj) and not custom
