"""The list and the page of accounts: what they show, to whom, and at what cost."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from accounts.admin.accounts import KEYS_SHOWN
from accounts.admin.timeline import TIMELINE_SHOWN
from accounts.models import EPOCH, Account, ApiKey, DailyUsage, KeyStanding, QuotaCounter, Refusal
from inventory.models import Category, Order, Pet
from petstore.backoffice import audit
from tests.conftest import OPERATOR
from tests.support.staff import clerk_who_may

LIST = "/admin/accounts/account/"


def page_of(account: Account) -> str:
    return reverse("admin:accounts_account_change", args=[account.pk])


def use(account: Account, used: int) -> None:
    today = (timezone.now().date() - EPOCH).days
    QuotaCounter.objects.create(
        account=account, minute_ends=0, minute_used=0, day=today, day_used=used, seen_at=0, admitted=True
    )


def refuse(key: ApiKey, **values: Any) -> Refusal:
    now = timezone.now()
    known: dict[str, Any] = {
        "request_id": "req-1", "at": now, "account": key.account, "key": key, "rule": "rate_limit_exceeded",
        "method": "GET", "route": "/v1/pets", "minute_limit": 60, "minute_used": 60, "minute_ends_at": now,
        "day_limit": 1000, "day_used": 70, "day_ends_at": now,
    }  # fmt: skip
    return Refusal.objects.create(**known | values)


def order_by(account: Account, number: int = 1) -> list[Order]:
    category = Category.objects.earliest("id")
    pets = [Pet.objects.create(name=f"Rex {pet}", category=category) for pet in range(number)]
    return [Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="api") for pet in pets]


def found(staff: Client, **query: str) -> list[Account]:
    return list(staff.get(LIST, query).context["cl"].result_list)


# --- The list ------------------------------------------------------------------------------------


def test_the_list_has_plan_and_todays_use(staff: Client, account: Account) -> None:
    use(account, 85_000)
    text = staff.get(LIST).text
    assert re.search(r"rounded-default[^>]*>\s*Business\s*</span>", text)
    assert "85,000 of 100,000" in text
    assert 'class="usage-high" style="width: 85.0%"' in text


def test_more_than_the_limit_fills_the_bar_and_no_more(staff: Client, account: Account) -> None:
    use(account, 250_000)
    text = staff.get(LIST).text
    assert 'class="usage-full" style="width: 100.0%"' in text
    assert "(250%)" in text


def test_yesterdays_use_is_not_todays(staff: Client, account: Account) -> None:
    use(account, 500)
    QuotaCounter.objects.update(day=(timezone.now().date() - EPOCH).days - 1)
    assert "0 of 100,000" in staff.get(LIST).text


def test_accounts_are_found_by_name_and_by_public_ids(staff: Client, account: Account, key: Any) -> None:
    Account.objects.create(name="Other", plan_id="free")
    for text in ("acme p", account.public_id, account.public_id[:6], key.public_id, key.public_id[:10]):
        assert found(staff, q=text) == [account], text
    assert found(staff, q="z" * 14) == []
    assert len(found(staff, q=" ")) == 2


def test_a_key_pasted_whole_finds_its_account_without_its_secret(
    staff: Client, account: Account, key: Any
) -> None:
    response = staff.get(LIST, {"q": key.text})
    assert response["Location"] == f"{LIST}?q={key.public_id}"
    assert found(staff, q=key.public_id) == [account]


def test_accounts_are_filtered_by_plan(staff: Client, account: Account) -> None:
    other = Account.objects.create(name="Other", plan_id="free")
    assert found(staff, plan__code__exact="free") == [other]


def test_a_list_of_accounts_asks_no_more_for_more_of_them(
    staff: Client, account: Account, issue: Any
) -> None:
    def queries(**query: str) -> int:
        with CaptureQueriesContext(connection) as asked:
            staff.get(LIST, query)
        return len(asked)

    queries()
    few, few_found = queries(), queries(q="c")
    for number in range(40):
        new = Account.objects.create(name=f"Customer {number}", plan_id="free")
        use(new, number)
        issue(of=new)
    assert queries() == few <= 7
    assert queries(q="c") == few_found <= 7


# --- The page ------------------------------------------------------------------------------------


def test_the_page_shows_plan_use_keys_bans_orders_and_refusals(
    staff: Client, account: Account, key: ApiKey, issue: Any
) -> None:
    today = timezone.now().date()
    use(account, 1_000)
    DailyUsage.objects.create(key=key, day=today - timedelta(days=3), requests=4_321, refusals=7)
    DailyUsage.objects.create(key=key, day=today - timedelta(days=30), requests=9_999)
    banned, _ = issue(name="Tills")
    now = round(timezone.now().timestamp() * 1_000_000)
    KeyStanding.objects.create(key=banned, banned_at=now, banned_until=now + 3_600_000_000)
    audit.record(OPERATOR, banned, audit.Action.BANNED, reason="30 requests too early.")
    order_by(account)
    refuse(key)
    page = staff.get(page_of(account))
    text = unescape(page.text)
    for shown in (
        "1,000 requests a minute, 100,000 a day", "1,000 of 100,000", key.public_id, "Banned until",
        "30 requests too early.", "Order 1: Rex 0", "Minute limit: GET /v1/pets", "?q=req-1",
    ):  # fmt: skip
        assert shown.replace("Order 1", f"Order {Order.objects.get().pk}") in text, shown
    (day,) = [row for row in page.context["panels"]["usage"].rows if row.total != "0"]
    assert day.label == f"{today - timedelta(days=3)}"
    assert [cell.value for cell in day.cells] == ["4,321", "7"]
    assert len(page.context["panels"]["usage"].rows) == 30


def test_the_numbers_of_the_chart_are_a_table_as_well(staff: Client, key: ApiKey) -> None:
    DailyUsage.objects.create(key=key, day=timezone.now().date(), requests=4_321)
    text = staff.get(page_of(key.account)).text
    assert re.search(r'<canvas class="chart" role="img" aria-label="[^"]*4,321', text)
    assert re.search(r"<td>\s*4,321\s*</td>", text)


def test_an_account_that_did_nothing_has_a_page(staff: Client, account: Account) -> None:
    text = staff.get(page_of(account)).text
    for sentence in (
        "No key yet.",
        "No requests in the last 30 days.",
        "No order yet.",
        "None on record.",
        "No key is banned now.",
    ):
        assert sentence in text
    assert f"/admin/accounts/apikey/add/?account={account.pk}" in text


def test_the_page_asks_no_more_for_more_rows(
    staff: Client, account: Account, key: ApiKey, issue: Any
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert staff.get(page_of(account)).status_code == 200
        return len(asked)

    order_by(account)
    refuse(key)
    staff.post(page_of(account), {"name": "Renamed", "plan": "business"})
    queries()
    few = queries()
    for number in range(40):
        new, _ = issue(name=f"Key {number}")
        KeyStanding.objects.create(key=new)
        refuse(new, request_id=f"req-{number}")
    order_by(account, 40)
    assert queries() == few <= 20
    page = staff.get(page_of(account))
    panels = page.context["panels"]
    assert len(panels["keys"]) == KEYS_SHOWN
    assert len(panels["timeline"]) == TIMELINE_SHOWN
    assert len(panels["more"][-1].rows) == len(panels["refusals"]) == 10
    assert f"/admin/accounts/apikey/?q={account.public_id}" in page.text


def test_the_timeline_has_keys_plans_and_orders_the_newest_first(
    staff: Client, account: Account, key: ApiKey
) -> None:
    staff.post(
        page_of(account).replace("/change/", "/change-plan/"),
        {"reason": "Agreed", "choice": "enterprise", "per_minute": 5_000, "per_day": 200_000},
    )
    (order,) = order_by(account)
    order.approve(by="boss", reason="Paid")
    key.revoke(reason="Leaked", by=OPERATOR)
    entries = [
        (entry.what, entry.why) for entry in staff.get(page_of(account)).context["panels"]["timeline"]
    ]
    change = (
        "Changed plan from Business to Enterprise, requests per minute from none to 5,000, "
        "requests per day from none to 200,000"
    )
    assert entries == [
        (f"Key {key.public_id}: revoked", "Leaked"),
        (f"Order {order.pk}: approved", "Paid"),
        (f"Order {order.pk}: placed", ""),
        (change, "Agreed"),
        (f"Key {key.public_id}: issued", ""),
    ]


def test_other_accounts_are_not_on_the_page(
    staff: Client, account: Account, key: ApiKey, issue: Any
) -> None:
    other = Account.objects.create(name="Other", plan_id="free")
    strange, _ = issue(of=other, name="Stranger")
    DailyUsage.objects.create(key=strange, day=timezone.now().date(), requests=5)
    order_by(other)
    refuse(strange)
    staff.post(page_of(other), {"name": "Another", "plan": "pro"})
    page = staff.get(page_of(account))
    assert "Stranger" not in page.text
    panels = page.context["panels"]
    assert (panels["usage"], panels["more"][-1].rows, list(panels["refusals"])) == (None, [], [])
    assert len(panels["timeline"]) == 1


def test_the_form_changes_no_plan(staff: Client, account: Account) -> None:
    sent = {"name": "Renamed", "plan": "free", "per_minute": "7", "per_day": "8"}
    assert staff.post(page_of(account), sent).status_code == 302
    account.refresh_from_db()
    assert (account.name, account.plan_id, account.per_day) == ("Renamed", "business", None)


def test_a_mistake_in_the_form_changes_nothing_that_the_page_says(staff: Client, account: Account) -> None:
    page = staff.post(page_of(account), {"name": "", "plan": "free", "per_minute": "7"})
    assert page.status_code == 200
    assert "1,000 requests a minute, 100,000 a day" in page.text


def test_nothing_on_the_page_is_unescaped(staff: Client, account: Account, issue: Any) -> None:
    evil = "<script>alert(1)</script>"
    Account.objects.filter(pk=account.pk).update(name=evil)
    key, _ = issue(name=evil)
    key.revoke(reason=evil, by=OPERATOR)
    order_by(account)
    Pet.objects.update(name=evil)
    refuse(key, route=evil)
    for path in (page_of(account), LIST, f"{page_of(account).removesuffix('change/')}what-if/"):
        text = staff.get(path).text
        assert evil not in text
        assert "&lt;script&gt;alert(1)" in text


def test_who_may_see_accounts_alone_sees_no_keys_and_orders(account: Account, key: ApiKey) -> None:
    order_by(account)
    refuse(key)
    text = clerk_who_may("view_account").get(page_of(account)).text
    assert "1,000 requests a minute" in text
    for hidden in (key.public_id, "Rex 0", "req-1", "Issue a key", 'name="_save"'):
        assert hidden not in text


def test_a_banned_key_is_named_however_many_newer_keys_there_are(
    staff: Client, account: Account, issue: Any
) -> None:
    oldest, _ = issue()
    for _ in range(KEYS_SHOWN + 5):
        issue()
    now = round(timezone.now().timestamp() * 1_000_000)
    KeyStanding.objects.create(key=oldest, banned_at=now, banned_until=now + 3_600_000_000)
    page = staff.get(page_of(account))
    assert "No key is banned now." not in page.text
    assert oldest.public_id in page.text
