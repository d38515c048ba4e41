"""The home page shows the next steps and statistics that the user may view."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from accounts.admin import dashboard
from accounts.models import Account, ApiKey, DailyUsage, DeprecatedUse, PlanCode
from inventory import stock
from inventory.models import Category, Order, Pet
from petstore.charts import BarChart, Series
from tests.conftest import OPERATOR
from tests.support.customers import ban, use_quota
from tests.support.staff import clerk_with, page_url

Issue = Callable[..., tuple[ApiKey, str]]
ACCOUNTS, KEYS = "/admin/accounts/account/", "/admin/accounts/apikey/?state="


@pytest.fixture
def busy(account: Account, key: ApiKey, issue: Issue, category: Category) -> None:
    """A shop with rows of every kind."""
    now = timezone.now()
    small = Account.objects.create(name="<b>Tiny</b> & Co", plan_id=PlanCode.FREE)
    DailyUsage.objects.create(key=key, day=now.date(), admitted=1200, rejected=34)
    use_quota(account, 20_000)
    use_quota(small, 950)
    issue(small, expires_at=now + timedelta(days=3))
    issue(small, expires_at=now + timedelta(days=20))
    ban(key)
    DeprecatedUse.objects.create(
        account=small, operation="getPet", day=now.date(), admitted=4321, last_call_at=now
    )
    pets = [Pet.objects.create(name=f"Rex {number}", category=category) for number in range(4)]
    for pet in pets[:3]:
        Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests")
    order = Order.objects.latest("id")
    order.approve(by="tests")
    assert stock.refresh()


def steps(page: Any) -> list[tuple[str, str, str]]:
    """Return the steps as (text, verb, link)."""
    return [(step.text, step.link_text, step.link) for step in page.context["steps"]]


def links(page: Any) -> set[str]:
    """Return the URLs in the content, those of chart bars included."""
    body = page.text[page.text.index('class="home"') :]
    found = set(re.findall(r'href="(/admin/[^"]*)"', body))
    for data in re.findall(r'data-value="([^"]*)"', body):
        for dataset in json.loads(unescape(data))["datasets"]:
            found |= set(dataset["links"])
    return {unescape(link) for link in found}


def test_next_steps_come_first_with_links(staff: Client, busy: None) -> None:
    assert steps(staff.get("/admin/")) == [
        ("2 orders are waiting for approval.", "Approve", "/admin/inventory/order/?stage=to_approve"),
        ("1 order is waiting to be shipped.", "Ship", "/admin/inventory/order/?stage=to_ship"),
        ("1 key is banned.", "View banned keys", f"{KEYS}banned"),
        ("1 key expires within 7 days and has no replacement.", "View expiring keys", f"{KEYS}unreplaced"),
        ("1 account has used at least 80% of today's quota.", "View accounts", f"{ACCOUNTS}?used=80"),
    ]


def test_step_links_all_accounts_that_reached_80_percent(staff: Client) -> None:
    for number in range(12):
        use_quota(Account.objects.create(name=f"Busy {number}", plan_id=PlanCode.FREE), 800 + number)
    use_quota(Account.objects.create(name="Calm", plan_id=PlanCode.FREE), 799)
    page = staff.get("/admin/")
    text = "10 accounts or more have used at least 80% of today's quota."
    assert (text, "View accounts", f"{ACCOUNTS}?used=80") in steps(page)
    accounts = staff.get(f"{ACCOUNTS}?used=80").context["cl"].result_list
    assert {account.name for account in accounts} == {f"Busy {number}" for number in range(12)}
    assert not staff.get(f"{ACCOUNTS}?used=100").context["cl"].result_list


@pytest.mark.same_on_both
def test_charts_show_the_requested_number_of_days(staff: Client, busy: None) -> None:
    for days, expected in {"7": 7, "90": 90, "": 30, "x": 30}.items():
        text = staff.get("/admin/", {"days": days}).text
        assert re.search(rf'aria-current="page">Last {expected} days</a>', text)
        for part in (
            f"Requests per day, last {expected} days: 1,200 requests. Free 0, Pro 0, Business 1,200,",
            f"Rejections per day, last {expected} days: 34 rejections.", "<td>1,200</td>",
            "Pets by category and status: 4 pets. Available 1, Pending 3, Sold 0.",
        ):  # fmt: skip
            assert part in text
    assert text.count("<canvas") == text.count('role="img"') == text.count("<details") == 3


def test_callers_of_get_pet_are_listed_with_its_removal(staff: Client, busy: None, settings: Any) -> None:
    text = staff.get("/admin/").text
    assert "4,321" in text
    assert "will be removed on 2030-12-05, in " in text
    settings.GET_PET_REMOVED_AT = datetime(2025, 1, 1, tzinfo=UTC)
    assert "was removed on 2025-01-01" in staff.get("/admin/").text


def test_suspended_accounts_are_listed_with_time_and_reason(
    staff: Client, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "No account is suspended." in staff.get("/admin/").text
    monkeypatch.setattr(dashboard, "MAX_SUSPENSIONS", 1)
    Account.objects.create(name="Other", plan_id="free").suspend(reason="Fraud", by=OPERATOR)
    account.suspend(reason="Unpaid since June", by=OPERATOR)
    Account.objects.filter(pk=account.pk).update(suspended_at=datetime(2031, 5, 4, 3, 2, tzinfo=UTC))
    page = staff.get("/admin/")
    assert list(page.context["cards"]["suspensions"].context["accounts"]) == [account]
    expected = {page_url(account), page_url(account, "lift_suspension")}
    assert expected | {"/admin/accounts/account/?state=suspended"} < links(page)
    for text in ("2031-05-04", "03:02 UTC", "Unpaid since June"):
        assert text in page.text
    assert "lift-suspension" not in clerk_with("view_account").get("/admin/").text


@pytest.mark.same_on_both
def test_each_count_is_that_of_the_list_behind_it(staff: Client, busy: None, issue: Issue) -> None:
    other = Account.objects.create(name="Other", plan_id=PlanCode.FREE)
    key, _ = issue(other, expires_at=timezone.now() + timedelta(days=2))
    key.rotate(by=OPERATOR)
    page = staff.get("/admin/")
    counts = [(link, int(text.split()[0])) for text, _, link in steps(page)]
    figures = re.findall(r'<a href="([^"]+)"><strong>([\d,]+)</strong>', page.text)
    counts += [(unescape(link), int(number)) for link, number in figures]
    for series in page.context["cards"]["pets"].context["chart"].series:
        counts.append((series.link, series.total))
        counts += zip(series.links, series.values, strict=True)
    assert len(counts) > 12
    for link, number in counts:
        assert len(staff.get(link).context["cl"].result_list) == number, link


def test_empty_shop_suggests_first_steps(staff: Client) -> None:
    page = staff.get("/admin/")
    assert steps(page) == [
        ("There are no accounts yet.", "Add the first account", f"{ACCOUNTS}add/"),
        ("There are no pets yet.", "Add the first pet", "/admin/inventory/pet/add/"),
    ]
    assert "<canvas" not in page.text
    for path in links(page):
        assert staff.get(path).status_code == 200, path


def test_page_says_what_is_missing_and_links_what_it_leaves_out(
    staff: Client, account: Account, issue: Issue, pet: Pet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stock, "MAX_PETS_COUNTED_ON_REQUEST", 0)
    for _ in range(6):  # Five are listed.
        issue(expires_at=timezone.now() + timedelta(days=3))
    text = staff.get("/admin/").text
    for part in ("There were no requests in the last 30", "Pets are being counted", "All 6 keys</a>"):
        assert part in text
    assert "no accounts yet" not in text


def test_sections_require_their_permissions(busy: None) -> None:
    for permission, sections in (
        ("view_order", {"orders"}), ("view_pet", {"pets"}), ("view_apikey", {"keys"}),
        ("change_account", {"traffic", "quota", "deprecated", "suspensions"}), ("view_category", set()),
    ):  # fmt: skip
        page: Any = clerk_with(permission).get("/admin/")
        assert set(page.context["cards"]) == sections
        assert ("Ask an Owner" in page.text) == (not sections)
        User.objects.all().delete()


def test_chart_links_each_bar_to_its_own_list() -> None:
    chart = BarChart(
        "Pets", "pets", "Category", ["A category with a very long name", "Cats"],
        [Series("Available", "--chart-1", [3, 0], "/all", ["/first", "/second"])],
    )  # fmt: skip
    data = json.loads(chart.data)
    assert data["labels"] == ["A category with a ver…", "Cats"]
    assert data["datasets"][0]["links"] == ["/first", "/second"]
    assert [row["label"] for row in chart.rows] == ["A category with a very long name", "Cats"]
    assert [row["cells"][0][1] for row in chart.rows] == ["/first", ""]
