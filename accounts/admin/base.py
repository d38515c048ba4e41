"""Helpers shared by the admin pages of plans, accounts, keys and staff."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from accounts.models import Account, ApiKey, DailyUsage
from accounts.usage import reports
from petstore.audit import Actor
from petstore.backoffice.charts import BarChart, Series
from petstore.backoffice.confirmation import Confirmation, ReasonForm, confirm
from petstore.backoffice.model_admin import PetstoreModelAdmin

MAX_PANEL_ROWS = 10
MIN_ID_LENGTH = 4  # Shorter prefixes of a public ID match too many rows.


def is_id_prefix(term: str) -> bool:
    return len(term) >= MIN_ID_LENGTH and term.isascii() and term.isalnum()


def page_url(obj: Model, page: str) -> str:
    return reverse(f"admin:{obj._meta.app_label}_{obj._meta.model_name}_{page}", args=[obj.pk])


def change_url(obj: Model) -> str:
    return page_url(obj, "change")


def issue_key_url(account: Account) -> str:
    return reverse("admin:accounts_apikey_add", query={"account": account.pk})


def make_link_column(template: str, build_context: Callable[[Any], dict[str, Any]]) -> Callable[..., Any]:
    """Make a column of links, which the template renders from `row` and the context."""

    @admin.display(description="actions")
    def actions(row: Model) -> SafeString:
        return render_to_string(template, build_context(row) | {"row": row})

    return actions


def annotate_requests_today(keys: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
    usage = DailyUsage.objects.filter(key=OuterRef("pk"), day=timezone.now().date())
    return keys.annotate(requests_today=Coalesce(Subquery(usage.values("admitted")), 0))


def build_usage_chart(now: datetime, **filters: Any) -> BarChart | None:
    """Chart the last 30 days of the DailyUsage that matches the filters; None without requests."""
    usage = reports.get_daily_usage(days=30, today=now.date(), **filters)
    if not any(day.admitted or day.rejected for day in usage):
        return None
    labels = [f"{day.day:%Y-%m-%d}" for day in usage]
    admitted = Series("Admitted", "--chart-1", [day.admitted for day in usage])
    rejected = Series("Refused", "--chart-4", [day.rejected for day in usage])
    title = "Usage in the last 30 days"
    return BarChart(title, "requests", "Day", labels, [admitted, rejected], newest_last=True)


def count_recent_requests(now: datetime, **filters: Any) -> dict[str, str]:
    """Map labels to request counts of the DailyUsage that matches the filters."""
    usage = reports.get_daily_usage(days=7, today=now.date(), **filters)
    return {
        "Requests today": f"{usage[-1].admitted:,}",
        "Requests in the last 7 days": f"{sum(day.admitted for day in usage):,}",
    }


class ConfirmedChangesAdmin(PetstoreModelAdmin):
    """An admin with pages that ask for confirmation of a change."""

    def get_confirmation_context(self, row: Any) -> dict[str, Any]:
        """Describe the row on these pages."""
        raise NotImplementedError

    def get_obstacle(self, confirmation: Confirmation, row: Any) -> str:
        """Return why the change is impossible, or an empty string."""
        return ""

    def confirm_change(
        self,
        request: HttpRequest,
        row: Model,
        confirmation: Confirmation,
        form_class: Callable[..., forms.Form],
        act: Callable[[dict[str, Any]], HttpResponse],
        *,
        description: str = "",
    ) -> HttpResponse:
        """Confirm a change on a page that describes the row, or has only this description."""
        if obstacle := self.get_obstacle(confirmation, row):
            self.message_user(request, obstacle, messages.WARNING)
            return redirect(change_url(row))
        context = {"description": description} if description else self.get_confirmation_context(row)
        back = change_url(row)
        return confirm(self, request, confirmation, form_class, act, back=back, object=row, **context)


def make_reason_view(
    confirmation: Confirmation,
    method: Callable[..., None],
    message: str,
    form_class: Callable[..., forms.Form] = ReasonForm,
    *,
    permission: str = "has_change_permission",
    get_next_url: Callable[[Any], str] = change_url,
    with_object: bool = False,
    relation: str = "",
) -> Callable[..., HttpResponse]:
    """Make a view that asks for a reason, and then calls `method(obj, **cleaned_data, by=Actor)`.

    `permission` names the method of the ModelAdmin that checks access to the object. `get_next_url` maps
    the object to the URL of the next page. `with_object` passes the object to the form. With a `relation`,
    the method changes the related row with the `row_id` of the URL.
    """

    def view(
        self: ConfirmedChangesAdmin, request: HttpRequest, object_id: str, row_id: int | None = None
    ) -> HttpResponse:
        obj = self.get_permitted_object(request, object_id, getattr(self, permission))
        row = get_object_or_404(getattr(obj, relation), pk=row_id) if relation else obj

        def act(cleaned_data: dict[str, Any]) -> HttpResponse:
            method(row, **cleaned_data, by=Actor.from_request(request))
            self.message_user(request, message.format(row), messages.SUCCESS)
            return redirect(get_next_url(obj))

        build_form = partial(form_class, obj) if with_object else form_class
        description = str(row) if relation else ""
        return self.confirm_change(request, obj, confirmation, build_form, act, description=description)

    return view
