"""The list of accounts, and the pages Overview and Requests of an account (D49)."""

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.db.models import Q, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from accounts.explanations import explain
from accounts.models import Account, DailyUsage, Membership, active_keys_q
from accounts.models.api_keys import MAX_LISTED_KEYS
from accounts.portal.access import for_members
from accounts.quota.limits import to_microseconds
from accounts.quota.store import read_windows
from accounts.usage import reports
from accounts.views import serialize_window
from petstore.api.int64 import INT64_MAX, parse_id

REJECTIONS_PER_PAGE = 25


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
    windows = [(window.name, serialize_window(window)) for window in read_windows(me.account)]
    context = {"me": me, "page": "overview", "windows": windows}
    return render(request, "portal/overview.html", context | build_usage(me.account))


def build_usage(account: Account) -> dict[str, Any]:
    """Sum the usage of 30 days by day and by key, and find the keys that need attention."""
    now = timezone.now()
    days = reports.list_days(30, now.date())
    keys = reports.find_recent_keys(account, now)
    usage = DailyUsage.objects.filter(key__in=keys, day__range=(days[0], days[-1]))
    totals = usage.order_by().values_list("key").annotate(Sum("admitted"), Sum("rejected"))
    by_key = {pk: (admitted, rejected) for pk, admitted, rejected in totals}
    is_banned = Q(rate_limit_state__banned_until__gt=to_microseconds(now))
    shown = keys.filter(Q(pk__in=list(by_key)) | active_keys_q(now) | is_banned)
    listed = list(shown.select_related("rate_limit_state", "rotated_to")[:MAX_LISTED_KEYS])
    expiring = [key for key in listed if key.describe_state(now)[0] == "soon"]
    return {
        "keys": [(key, *by_key.get(key.pk, (0, 0))) for key in listed],
        "banned": [(key, ban_end) for key in listed if (ban_end := key.get_ban_end(now))],
        "expiring": [key for key in expiring if not hasattr(key, "rotated_to")],
        "days": reports.get_daily_usage(30, now.date(), key__in=keys)[::-1],
    }


@for_members()
@require_safe
def requests(request: HttpRequest, me: Membership) -> HttpResponse:
    """Explain the rejections with a request ID, and list the latest, all of this account."""
    request_id, before = request.GET.get("q", "").strip(), parse_id(request.GET.get("before"))
    rejections = me.account.rejections.select_related("key")
    latest = list(rejections.filter(pk__lt=before or INT64_MAX)[: REJECTIONS_PER_PAGE + 1])
    context = {
        "me": me,
        "page": "requests",
        "request_id": request_id,
        "explanations": explain(list(rejections.for_request(request_id)), to_staff=False),
        "latest": latest[:REJECTIONS_PER_PAGE],
        "next": latest[-2].pk if len(latest) > REJECTIONS_PER_PAGE else None,
        "before": before,
        "retention_days": settings.REFUSALS_KEPT_DAYS,
    }
    return render(request, "portal/requests.html", context)
