"""The list of accounts, and the pages Overview and Requests of an account (D49)."""

import csv
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q, QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from accounts.events.warnings import THRESHOLDS
from accounts.explanations import explain, get_error_code, with_error_codes
from accounts.models import Account, ApiKey, DailyUsage, Membership, Rejection, active_keys_q
from accounts.models.api_keys import MAX_LISTED_KEYS
from accounts.portal.access import for_members
from accounts.portal.forms import RejectionFilterForm
from accounts.quota.limits import to_microseconds
from accounts.quota.store import read_windows
from accounts.usage import reports
from accounts.usage.charts import DEFAULT_DAYS, PERIODS, build_period_chart
from accounts.views import serialize_window
from petstore.api.errors import ErrorCode
from petstore.api.int64 import INT64_MAX, parse_id

REJECTIONS_PER_PAGE = 25
MAX_REJECTIONS_COUNTED = 10_000


@login_required
@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Redirect to the user's only account, or list the accounts."""
    memberships = Membership.objects.filter(user=request.user.pk).select_related("account__plan")
    members = list(memberships.order_by("account__name"))
    if len(members) == 1:
        return redirect("portal:overview", members[0].account.public_id)
    return render(request, "portal/home.html", {"members": members})


@for_members()
@require_safe
def overview(request: HttpRequest, me: Membership) -> HttpResponse:
    now, days = timezone.now(), get_days(request)
    minute, day = read_windows(me.account)
    windows = [(window.name, serialize_window(window)) for window in (minute, day)]
    context = {
        "me": me,
        "page": "overview",
        "windows": windows,
        "webhooks": [
            (endpoint, endpoint.describe_state(now)[1])
            for endpoint in me.account.webhooks.needing_attention(now).select_related("account")
        ],
        "reached": max((at for at in THRESHOLDS if day.used * 100 >= day.limit * at), default=0),
        "days": days,
        "periods": [(int(days), text) for days, text in PERIODS.items()],
        "period": PERIODS[str(days)],
        "operations": reports.get_usage_by_operation(me.account, now, days),
        "deprecated_calls": reports.find_deprecated_calls(me.account, now.date()),
        "removed_at": settings.GET_PET_REMOVED_AT,
    }
    return render(request, "portal/overview.html", context | build_usage(me.account, now, days))


def get_days(request: HttpRequest) -> int:
    days = request.GET.get("days", "")
    return int(days) if days in PERIODS else DEFAULT_DAYS


def build_usage(account: Account, now: datetime, days: int) -> dict[str, Any]:
    """Chart the usage, sum it by key, and find the keys that need attention."""
    keys = reports.find_recent_keys(account, now, days)
    period = reports.list_days(days, now.date())
    usage = DailyUsage.objects.filter(day__range=(period[0], period[-1]), key__pk__any_of=keys)
    totals = usage.order_by().values_list("key").annotate(Sum("admitted"), Sum("rejected"))
    by_key = {pk: counts for pk, *counts in totals}
    is_banned = Q(rate_limit_state__banned_until__gt=to_microseconds(now))
    has_usage = Q(pk__any_of=",".join(map(str, by_key)))
    shown = ApiKey.objects.filter(has_usage | active_keys_q(now) | is_banned, pk__any_of=keys)
    states = "account", "rate_limit_state", "rotated_to"
    listed = list(shown.select_related(*states)[:MAX_LISTED_KEYS])
    others = by_key.keys() - {key.pk for key in listed}
    expiring = [key for key in listed if key.describe_state(now)[0] == "soon"]
    return {
        "keys": [(key, *by_key.get(key.pk, (0, 0))) for key in listed],
        "other_keys": [sum(counts) for counts in zip(*(by_key[pk] for pk in others), strict=True)],
        "banned": [(key, ban_end) for key in listed if (ban_end := key.get_ban_end(now))],
        "expiring": [key for key in expiring if not hasattr(key, "rotated_to")],
        "chart": build_period_chart(account, keys, now, days),
    }


@for_members()
@require_safe
def usage_csv(request: HttpRequest, me: Membership) -> HttpResponse:
    """Download the numbers of the chart."""
    now, days = timezone.now(), get_days(request)
    keys = reports.find_recent_keys(me.account, now, days)
    chart = build_period_chart(me.account, keys, now, days)
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="usage-{now:%Y-%m-%d}-{days}-days.csv"'
    if chart is not None:
        writer = csv.writer(response)
        writer.writerow([chart.heading, *(series.name for series in chart.series)])
        writer.writerows(zip(chart.labels, *(series.values for series in chart.series), strict=True))
    return response


@for_members()
@require_safe
def requests(request: HttpRequest, me: Membership) -> HttpResponse:
    """Explain the rejections with a request ID, and list the latest, all of this account."""
    request_id, before = request.GET.get("q", "").strip(), parse_id(request.GET.get("before"))
    rejections = me.account.rejections.select_related("key")
    form = RejectionFilterForm(request.GET, account=me.account)
    matches = rejections.filter(form.get_condition())
    latest = list(matches.filter(form.reason_q, pk__lt=before or INT64_MAX)[: REJECTIONS_PER_PAGE + 1])
    counts = count_by_reason(matches)
    context = {
        "me": me,
        "page": "requests",
        "request_id": request_id,
        "explanations": explain(list(rejections.for_request(request_id)), to_staff=False),
        "form": form,
        "counts": counts,
        "total": sum(count for *_, count in counts),
        "max_counted": MAX_REJECTIONS_COUNTED,
        "latest": with_error_codes(latest[:REJECTIONS_PER_PAGE]),
        "next": latest[-2].pk if len(latest) > REJECTIONS_PER_PAGE else None,
        "before": before,
        "retention_days": settings.REJECTION_RETENTION_DAYS,
    }
    return render(request, "portal/requests.html", context)


def count_by_reason(rejections: QuerySet[Rejection]) -> list[tuple[str, ErrorCode, str, int]]:
    """Count the newest rejections: reason, error code, label and number, the largest number first."""
    newest = Rejection.objects.filter(pk__in=rejections.values("pk")[:MAX_REJECTIONS_COUNTED])
    counts = (
        newest.order_by().values_list("reason").annotate(count=Count("pk")).order_by("-count", "reason")
    )
    return [
        (reason, get_error_code(reason), Rejection.Reason(reason).label, count) for reason, count in counts
    ]
