"""Charts of the usage of accounts and keys, in the back office and on the pages for customers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from accounts.models import Account
from accounts.usage import reports
from petstore.charts import BarChart, Series

PERIODS = {"1": "24 hours", "7": "7 days", "30": "30 days", "90": "90 days"}  # By number of days.
DEFAULT_DAYS = 30


def build_period_chart(account: Account, keys: str, now: datetime, days: int) -> BarChart | None:
    """Chart one of the PERIODS of an account with its recent keys; None without requests."""
    if days == 1:
        return build_hourly_chart(account, now)
    return build_usage_chart(now, days, key__pk__any_of=keys)


def build_usage_chart(now: datetime, days: int = DEFAULT_DAYS, **filters: Any) -> BarChart | None:
    """Chart the last days of the DailyUsage that matches the filters; None without requests."""
    usage = reports.get_daily_usage(days, now.date(), **filters)
    rows = [(f"{day.day:%Y-%m-%d}", day.admitted, day.rejected) for day in usage]
    return build_chart(f"Usage in the last {days} days", "Day (UTC)", rows)


def build_hourly_chart(account: Account, now: datetime) -> BarChart | None:
    """Chart the last 24 hours of an account; None without requests."""
    rows = [(f"{at:%Y-%m-%d %H:%M}", *counts) for at, *counts in reports.get_hourly_usage(account, now)]
    return build_chart("Usage in the last 24 hours", "Hour (UTC)", rows)


def build_chart(title: str, heading: str, rows: Sequence[tuple[Any, ...]]) -> BarChart | None:
    """Chart rows of a label and the numbers of admitted and rejected requests."""
    labels, admitted, rejected = zip(*rows, strict=True)
    series = [Series("Admitted", "--chart-1", admitted), Series("Rejected (429)", "--chart-4", rejected)]
    chart = BarChart(title, "requests", heading, labels, series, newest_last=True)
    return chart if chart.total else None
