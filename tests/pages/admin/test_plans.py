"""Changes of plans need confirmation; what-if simulates other limits."""

import re
from typing import Any

import pytest
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from accounts.models import Account, MinuteCount, MinuteHistogram, Plan
from accounts.quota.limits import MINUTE, to_microseconds
from petstore.backoffice.navigation import environment_callback
from tests.conftest import Api

pytestmark = pytest.mark.same_on_both


def page_url(plan: str, page: str = "change") -> str:
    return reverse(f"admin:accounts_plan_{page}", args=[plan])


def what_if_url(account: Account) -> str:
    return reverse("admin:accounts_account_what_if", args=[account.pk])


def test_change_that_affects_accounts_needs_confirmation(staff: Client, account: Account, api: Api) -> None:
    limits = {"per_minute": 900, "per_day": 100_000}
    page = staff.post(page_url("business"), limits)
    assert "This changes the limits of 1 account with 1 active key." in page.text
    assert Plan.objects.get(pk="business").per_minute == 1000
    page = staff.post(page_url("business"), limits | {"confirmed": "on"}, follow=True)
    assert "The new limits now apply to 1 account with 1 active key" in page.text
    assert Plan.objects.get(pk="business").per_minute == 900
    assert api.get("/pets")["X-RateLimit-Limit"] == "900"


def test_unchanged_or_invalid_limits_need_no_confirmation(staff: Client, account: Account) -> None:
    for per_minute, per_day in ((0, ""), (-1, "9" * 22), ("1.5", 0)):
        limits = {"per_minute": per_minute, "per_day": per_day, "confirmed": "on"}
        page = staff.post(page_url("business"), limits)
        assert set(page.context["adminform"].form.errors) == {"per_minute", "per_day"}
    assert Plan.objects.get(pk="business").per_day == 100_000
    current = {"per_minute": 1000, "per_day": 100_000}
    assert staff.post(page_url("business"), current).status_code == 302


def test_enterprise_shows_its_accounts_and_is_read_only(staff: Client) -> None:
    big = Account.objects.create(name="Big", plan_id="enterprise", per_minute=70, per_day=80)
    assert 'name="confirmed"' not in staff.get(page_url("enterprise")).text
    assert staff.post(page_url("enterprise"), {"per_minute": 5, "per_day": 6}).status_code == 403
    MinuteHistogram.objects.create(account=big, day=timezone.now().date(), minutes={"90": 1})
    page = staff.get(page_url("enterprise", "what_if"), {"per_minute": 100, "per_day": 100})
    assert cells(page)["Requests per minute"] == ("custom", "100")
    assert cells(page)["Rejected"] == ("20", "0 (0.0%)")


@pytest.fixture(params=["plan", "account"])
def path(request: pytest.FixtureRequest, account: Account) -> str:
    return page_url("business", "what_if") if request.param == "plan" else what_if_url(account)


def cells(page: Any) -> dict[str, tuple[str, str]]:
    row = '<tr><th scope="row">(.*?)</th><td class="number">(.*?)</td><td class="number">(.*?)</td></tr>'
    return {label: (current, simulated) for label, current, simulated in re.findall(row, page.text)}


def test_recent_minutes_are_counted_and_join_their_day(staff: Client, account: Account, path: str) -> None:
    """Recent minutes are not yet merged into the row of the day."""
    now = timezone.now()
    minute = to_microseconds(now) // MINUTE
    MinuteCount.objects.create(account=account, minute=minute, requests=61, written_at=0)
    page = staff.get(path, {"per_minute": 30, "per_day": 1_000})
    assert cells(page)["Rejected"] == ("0", "31 (50.8%)")
    MinuteHistogram.objects.create(account=account, day=now.date(), minutes={"61": 1})
    page = staff.get(path, {"per_minute": 61, "per_day": 100})
    assert cells(page)["Rejected"] == ("0", "22 (18.0%)")


def test_invalid_limits_get_a_message(staff: Client) -> None:
    invalid = ("", ""), ("abc", "5"), ("0", "-1"), ("1.5", "9" * 30), ("<script>", "=1+1")
    for per_minute, per_day in invalid:
        query = {"per_minute": per_minute, "per_day": per_day}
        page = staff.get(page_url("business", "what_if"), query)
        assert page.context["form"].errors
        assert "simulation" not in page.context
        assert "<script>&" not in page.text


def test_what_if_without_requests_has_no_share(staff: Client, path: str) -> None:
    page = staff.get(path, {"per_minute": 30, "per_day": 1_000})
    assert page.context["simulation"].requests == 0
    assert "share" not in page.context


@pytest.mark.parametrize(
    ("values", "label"),
    [
        ({"HTTPS": False, "DEMO_KEY": "psk_"}, "Demo"), ({"HTTPS": False, "DEMO_KEY": ""}, "Local"),
        ({"HTTPS": True, "ENVIRONMENT": "staging"}, "Staging"),
        ({"HTTPS": True, "ENVIRONMENT": "production"}, "Production"),
    ],
)  # fmt: skip
def test_pages_name_the_deployment(rf: RequestFactory, settings: Any, values: Any, label: str) -> None:
    """Otherwise production could be mistaken for staging."""
    for name, value in values.items():
        setattr(settings, name, value)
    assert environment_callback(rf.get("/admin/"))[0] == label
