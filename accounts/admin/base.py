"""Helpers shared by the admin pages of plans, accounts and keys."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from accounts.models import Account, ApiKey, DailyUsage, Plan
from accounts.quota import publication
from accounts.usage import reports
from petstore.backoffice.audit import Actor
from petstore.backoffice.charts import BarChart, Series
from petstore.backoffice.confirmation import Confirmation, ReasonForm, confirm
from petstore.backoffice.model_admin import PetstoreModelAdmin

MAX_PANEL_ROWS = 10
MIN_ID_LENGTH = 4  # Shorter prefixes of a public ID match too many rows.
# The lookups that find the keys to publish after a change.
KEY_LOOKUPS: dict[type[Model], str] = {ApiKey: "pk", Account: "account", Plan: "account__plan"}


def is_id_prefix(term: str) -> bool:
    return len(term) >= MIN_ID_LENGTH and term.isascii() and term.isalnum()


def page_url(obj: Model, page: str) -> str:
    return reverse(f"admin:{obj._meta.app_label}_{obj._meta.model_name}_{page}", args=[obj.pk])


def change_url(obj: Model) -> str:
    return page_url(obj, "change")


def issue_key_url(account: Account) -> str:
    return f"{reverse('admin:accounts_apikey_add')}?account={account.pk}"


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


def make_reason_view(
    confirmation: Confirmation,
    method: Callable[..., None],
    message: str,
    form_class: Callable[..., forms.Form] = ReasonForm,
    *,
    permission: str = "has_change_permission",
    get_next_url: Callable[[Any], str] = change_url,
    with_object: bool = False,
) -> Callable[..., HttpResponse]:
    """Make a view that asks for a reason, and then calls `method(obj, **cleaned_data, by=Actor)`.

    `permission` names the method of the ModelAdmin that checks access to the object. The ModelAdmin must
    also define `get_confirmation_context`. `get_next_url` maps the object to the URL of the next page.
    `with_object` passes the object to the form.
    """

    def view(self: Any, request: HttpRequest, object_id: str) -> HttpResponse:
        obj = self.get_permitted_object(request, object_id, getattr(self, permission))

        def act(cleaned_data: dict[str, Any]) -> HttpResponse:
            method(obj, **cleaned_data, by=Actor.from_request(request))
            self.message_user(request, message.format(obj), messages.SUCCESS)
            warn_if_unpublished(self, request, obj)
            return HttpResponseRedirect(get_next_url(obj))

        context = self.get_confirmation_context(obj)
        build_form = partial(form_class, obj) if with_object else form_class
        back = change_url(obj)
        return confirm(self, request, confirmation, build_form, act, back=back, object=obj, **context)

    return view


def warn_if_unpublished(model_admin: PetstoreModelAdmin, request: HttpRequest, obj: Model) -> None:
    """Show a warning after the commit if the change could not be published to Redis."""

    def warn() -> None:
        if text := publication.get_warning(**{KEY_LOOKUPS[type(obj)]: obj.pk}):
            model_admin.message_user(request, text, messages.WARNING)

    if type(obj) in KEY_LOOKUPS:
        transaction.on_commit(warn, robust=True)
