"""What the pages of the back office cost, however many rows there are."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.admin import account_panels
from accounts.events.sequencing import sequence_all
from accounts.models import Account, ApiKey, DailyUsage, MinuteHistogram, PlanCode
from inventory import stock
from inventory.models import Category, Order, Pet
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR
from tests.support.costs import explain, fill_shop, sequential_scans
from tests.support.customers import add_rejection, ban, use_quota
from tests.support.skips import READS_PLANS
from tests.support.staff import member_of, page_url

LISTS = [model._meta.label_lower.replace(".", "/") + "/" for model in admin.site._registry]
MAX_QUERIES = {  # Of other lists: 12.
    "": 18, "accounts/account/": 7, "accounts/account/?q=c": 7, "accounts/apikey/": 6, "accounts/event/": 4,
    "accounts/account/{account.pk}/change/": 25,
    "accounts/plan/business/what-if/?per_minute=5&per_day=50": 6,
}  # fmt: skip
SEARCHES = (
    "Customer 2", "c", "1700", "00001700abcdef", "zzzz", "order 1700", "request-7", "lift", "rotate",
    "suspend", "approve",
)  # fmt: skip


def capture(page: Callable[[], Any]) -> list[str]:
    """Return all SQL of a page, sessions and permissions included."""
    with CaptureQueriesContext(connection) as queries:
        assert page().status_code == 200
    return [query["sql"] for query in queries]


@pytest.mark.same_on_both
@pytest.mark.parametrize("page", sorted({*LISTS, *MAX_QUERIES}))
def test_page_has_a_constant_number_of_queries(
    staff: Client, account: Account, pet: Pet, issue: Callable[..., tuple[ApiKey, str]], page: str
) -> None:
    now = timezone.now()

    def add_rows(number: int) -> None:
        other = Account.objects.create(name=f"Customer {number}", plan_id="business")
        for owner in (account, other):
            key, _ = issue(of=owner)
            DailyUsage.objects.create(key=key, day=now.date(), admitted=5)
            add_rejection(key, request_id=f"req-{number}")
            new = Pet.objects.create(name=f"Pet {number}", category=Category.objects.create(name=f"{key}"))
            Order.objects.place(account_id=owner.pk, pet_id=new.pk, by="tests")
        ban(key)
        use_quota(other, 900 + number)
        MinuteHistogram.objects.create(account=other, day=now.date(), minutes={"90": 1})
        plan = PlanCode.PRO if number % 2 else PlanCode.FREE
        account.change_plan(plan, None, None, reason="x", by=OPERATOR)
        member_of("Viewer", "Stock", name=f"user {number}")
        sequence_all()

    def count_queries() -> int:
        return len(capture(lambda: staff.get(f"/admin/{page.format(account=account)}")))

    add_rows(0)
    count_queries()
    before = count_queries()
    for number in range(1, 4):
        add_rows(number)
    assert count_queries() == before <= MAX_QUERIES.get(page, 12)


def test_page_of_an_account_limits_its_panels_but_lists_every_ban(
    staff: Client, key: ApiKey, pet: Pet, issue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = key.account
    for constant in ("MAX_KEYS", "MAX_TIMELINE"):
        monkeypatch.setattr(account_panels, constant, 1)
    issue()
    ban(key)
    for _ in range(11):
        add_rejection(key)
        Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests").cancel(by="tests")
    page = staff.get(page_url(account))
    panels = page.context["panels"]
    assert (len(panels["keys"]), len(panels["timeline"])) == (1, 1)
    assert [banned for banned, _ in panels["banned_keys"]] == [key]
    assert len(panels["extra_panels"][-1].rows) == len(panels["rejections"]) == 10
    assert f"/admin/accounts/apikey/?q={account.public_id}" in page.text


@pytest.mark.same_on_both
def test_each_query_of_a_search_is_limited(staff: Client, key: ApiKey, pet: Pet) -> None:
    queries = capture(lambda: staff.post("/admin/search/", {"s": "acme"}))
    assert len(queries) <= 12
    selects = [sql for sql in queries if re.search(r"FROM .(accounts|inventory)_", sql)]
    assert not [sql for sql in selects if " LIMIT " not in sql and '."id" = ' not in sql]


@READS_PLANS
def test_neither_home_nor_search_scans_a_large_table(staff: Client, category: Category) -> None:
    assert stock.refresh()  # Otherwise, the page counts the pets.
    fill_shop()
    home = [*explain(capture(lambda: staff.get("/admin/")))]
    assert any("accounts_dailyusage" in plan for plan in home)
    for plan in home:
        # The charts need every key's account.
        assert not sequential_scans(plan) - {"accounts_apikey"}, plan
    for text in SEARCHES:
        for plan in explain(capture(lambda text=text: staff.post("/admin/search/", {"s": text}))):  # type: ignore[misc]
            assert not sequential_scans(plan), plan


def test_page_of_the_audit_trail_reads_no_more_than_it_shows(staff: Client) -> None:
    rows = [AuditEntry(action="changed", address="192.0.2.1") for _ in range(60)]
    oldest = AuditEntry.objects.bulk_create(rows)[0]
    queries = capture(lambda: staff.get("/admin/backoffice/auditentry/", {"before": oldest.pk}))
    reads = [sql for sql in queries if 'FROM "backoffice_auditentry"' in sql]
    assert 0 < len(reads) <= 2
    assert all("LIMIT" in sql and "COUNT(" not in sql for sql in reads)
