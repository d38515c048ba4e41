"""Shared by the admin pages of accounts and keys: usage, confirmation with a reason, links."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.db.models import Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone

from accounts.models import Account, ApiKey, DailyUsage, Plan
from accounts.quota import publication
from accounts.usage import reports
from petstore.backoffice.audit import Actor
from petstore.backoffice.charts import BarChart, Series
from petstore.backoffice.confirmation import Confirmation, ReasonForm, confirm
from petstore.backoffice.model_admin import PetstoreModelAdmin

LATEST = 10  # Rows of a panel.
SHORTEST_ID = 4  # Shorter prefixes of a public ID match too many.
# The lookups by which a changed row finds the keys to publish.
KEY_LOOKUPS: dict[type[Model], str] = {ApiKey: "pk", Account: "account", Plan: "account__plan"}


def may_be_id(term: str) -> bool:
    return len(term) >= SHORTEST_ID and term.isascii() and term.isalnum()


def change_url(row: Model) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


def with_requests_today(keys: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
    """Annotate `requests_today`."""
    today = DailyUsage.objects.filter(key=OuterRef("pk"), day=timezone.now().date()).values("requests")
    return keys.annotate(requests_today=Coalesce(Subquery(today), 0))


def usage_chart(now: datetime, **condition: Any) -> BarChart | None:
    """Chart the last 30 days, or None without requests. `condition` filters DailyUsage."""
    days = reports.get_daily_usage(days=30, today=now.date(), **condition)
    if not any(day.requests or day.refusals for day in days):
        return None
    labels = [f"{day.day:%Y-%m-%d}" for day in days]
    admitted = Series("Admitted", "--chart-1", [day.requests for day in days])
    refused = Series("Refused", "--chart-4", [day.refusals for day in days])
    title = "Usage in the last 30 days"
    return BarChart(title, "requests", "Day", labels, [admitted, refused], newest_last=True)


def recent_requests(now: datetime, **condition: Any) -> dict[str, str]:
    """Labelled numbers of requests. `condition` filters DailyUsage."""
    days = reports.get_daily_usage(days=7, today=now.date(), **condition)
    return {
        "Requests today": f"{days[-1].requests:,}",
        "Requests in the last 7 days": f"{sum(day.requests for day in days):,}",
    }


def confirm_with_reason(
    admin: PetstoreModelAdmin,
    request: HttpRequest,
    row: Model,
    question: Confirmation,
    *,
    method: Callable[..., None],
    message: str,
    form_class: type[forms.Form] = ReasonForm,
    **context: Any,
) -> HttpResponse:
    """Ask for a reason, then call `method(row, **form data, by=Actor)` and redirect to the row's page."""

    def act(given: dict[str, Any]) -> HttpResponse:
        method(row, **given, by=Actor.of(request))
        admin.message_user(request, message.format(row))
        warn_if_unpublished(admin, request, row)
        return HttpResponseRedirect(change_url(row))

    return confirm(admin, request, question, form_class, act, back=change_url(row), **context)


def reason_view(
    question: Confirmation, method: Callable[..., None], message: str
) -> Callable[..., HttpResponse]:
    """Make a view of `confirm_with_reason`, for an admin with a `question_context`."""

    def view(self: Any, request: HttpRequest, object_id: str) -> HttpResponse:
        row = self.row(request, object_id, self.has_change_permission)
        return confirm_with_reason(
            self, request, row, question, method=method, message=message, **self.question_context(row)
        )

    return view


def warn_if_unpublished(admin: PetstoreModelAdmin, request: HttpRequest, row: Model) -> None:
    """Warn, after the commit, if the change could not be published to Redis."""

    def warn(lookup: str) -> None:
        if text := publication.get_warning(**{lookup: row.pk}):
            admin.message_user(request, text, messages.WARNING)

    if lookup := KEY_LOOKUPS.get(type(row)):
        transaction.on_commit(partial(warn, lookup), robust=True)
