"""What several pages share: the use of a key or account, and how a reason is asked for."""

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
from petstore.backoffice.confirmation import Question, ReasonForm, confirm
from petstore.backoffice.model_admin import PetstoreModelAdmin

LATEST = 10  # Refusals, bans: as many as a page lists.
SHORTEST_ID = 4  # Characters of a public id that are looked for: fewer begin too many.
# From a key to what it is told of.
FROM_KEY: dict[type[Model], str] = {ApiKey: "pk", Account: "account", Plan: "account__plan"}


def may_be_id(term: str) -> bool:
    return len(term) >= SHORTEST_ID and term.isascii() and term.isalnum()


def address(row: Model) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


def with_use_of_today(keys: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
    """Return the keys, each with its `requests_today`."""
    today = DailyUsage.objects.filter(key=OuterRef("pk"), day=timezone.now().date()).values("requests")
    return keys.annotate(requests_today=Coalesce(Subquery(today), 0))


def usage_chart(now: datetime, **whose: Any) -> BarChart | None:
    """Return the chart of 30 days; None if nothing was sent. `whose`: a condition of DailyUsage."""
    days = reports.usage_of(days=30, today=now.date(), **whose)
    if not any(day.requests or day.refusals for day in days):
        return None
    labels = [f"{day.day:%Y-%m-%d}" for day in days]
    admitted = Series("Admitted", "--chart-1", [day.requests for day in days])
    refused = Series("Refused", "--chart-4", [day.refusals for day in days])
    title = "Use in the last 30 days"
    return BarChart(title, "requests", "Day", labels, [admitted, refused], newest_last=True)


def sent_lately(now: datetime, **whose: Any) -> dict[str, str]:
    """Return what was sent today and in seven days, by its name for people."""
    days = reports.usage_of(days=7, today=now.date(), **whose)
    return {
        "Requests today": f"{days[-1].requests:,}",
        "Requests in the last 7 days": f"{sum(day.requests for day in days):,}",
    }


def ask_why(
    admin: PetstoreModelAdmin,
    request: HttpRequest,
    row: Model,
    question: Question,
    *,
    verb: Callable[..., None],
    said: str,
    form_class: type[forms.Form] = ReasonForm,
    **context: Any,
) -> HttpResponse:
    """Ask for the reason of a verb of the row; once it is given, do it, and say so on the row's page."""

    def act(given: dict[str, Any]) -> HttpResponse:
        verb(row, **given, by=Actor.of(request))
        admin.message_user(request, said.format(row))
        warn_if_untold(admin, request, row)
        return HttpResponseRedirect(address(row))

    return confirm(admin, request, question, form_class, act, back=address(row), **context)


def asks_why(question: Question, verb: Callable[..., None], said: str) -> Callable[..., HttpResponse]:
    """Return the view of a page that asks for the reason of a verb, with the `facts` of the row."""

    def view(self: Any, request: HttpRequest, object_id: str) -> HttpResponse:
        row = self.row(request, object_id, self.has_change_permission)
        return ask_why(self, request, row, question, verb=verb, said=said, **self.facts(row))

    return view


def warn_if_untold(admin: PetstoreModelAdmin, request: HttpRequest, row: Model) -> None:
    """Warn after the commit if Redis could not be told of the keys of the row, if it has any."""

    def warn(lookup: str) -> None:
        if text := publication.warning(**{lookup: row.pk}):
            admin.message_user(request, text, messages.WARNING)

    if lookup := FROM_KEY.get(type(row)):
        transaction.on_commit(partial(warn, lookup), robust=True)
