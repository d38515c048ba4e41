"""The home page shows the sections that the user may view, with exact counts."""

import json
import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from accounts.models import Account, ApiKey, DailyUsage, DeprecatedUse, PlanCode
from inventory import stock
from inventory.models import Category, Order, Pet
from tests.conftest import OPERATOR, Issue
from tests.support.customers import ban, use_quota
from tests.support.staff import clerk_with


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


def test_page_works_before_the_pets_are_counted(staff: Client, pet: Pet, monkeypatch: Any) -> None:
    monkeypatch.setattr(stock, "MAX_PETS_COUNTED_ON_REQUEST", 0)
    assert "Pets are being counted" in staff.get("/admin/").text


def test_sections_require_their_permissions(busy: None) -> None:
    for permission, sections in (
        ("view_order", {"orders"}), ("view_pet", {"pets"}), ("view_apikey", {"keys"}),
        ("change_account", {"traffic", "quota", "deprecated", "suspensions"}), ("view_category", set()),
    ):  # fmt: skip
        page: Any = clerk_with(permission).get("/admin/")
        assert set(page.context["cards"]) == sections
        assert ("Ask an Owner" in page.text) == (not sections)
        User.objects.all().delete()
