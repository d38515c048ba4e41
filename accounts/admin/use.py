"""How much an account or a key was used, as its page shows it."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, Sum

from accounts import reports
from accounts.models import DailyUsage
from petstore.backoffice.charts import BarChart, Series


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
    today = now.date()
    in_week = DailyUsage.objects.filter(day__gt=today - timedelta(days=7), day__lte=today, **whose)
    sent = in_week.aggregate(today=Sum("requests", filter=Q(day=today)), week=Sum("requests"))
    return {
        "Requests today": f"{sent['today'] or 0:,}",
        "Requests in the last 7 days": f"{sent['week'] or 0:,}",
    }
