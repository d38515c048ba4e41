"""Helpers shared by the admin pages of plans, accounts, keys and staff."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from accounts.models import Account, ApiKey, DailyUsage
from accounts.usage import reports

MAX_PANEL_ROWS = 10
MIN_ID_LENGTH = 4  # Shorter prefixes of a public ID match too many rows.


def is_id_prefix(term: str) -> bool:
    return len(term) >= MIN_ID_LENGTH and term.isascii() and term.isalnum()


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


def count_recent_requests(now: datetime, **filters: Any) -> dict[str, str]:
    """Map labels to request counts of the DailyUsage that matches the filters."""
    usage = reports.get_daily_usage(days=7, today=now.date(), **filters)
    return {
        "Requests today": f"{usage[-1].admitted:,}",
        "Requests in the last 7 days": f"{sum(day.admitted for day in usage):,}",
    }
