"""Plans in the back office."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from accounts.models import Plan, PlanCode
from petstore.backoffice.pages import PetstoreModelAdmin


@admin.register(Plan)
class PlanAdmin(PetstoreModelAdmin):
    """The contract's four plans: their numbers may change, but Enterprise has none of its own."""

    list_display = ["code", "per_minute", "per_day"]
    readonly_fields = ["code"]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Ask for both numbers. The model lets them be empty for Enterprise, which has no form."""
        form = super().get_form(request, obj, change, **kwargs)
        for field in form.base_fields.values():
            field.required = True
        return form

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
