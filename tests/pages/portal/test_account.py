"""The overview of an account, its rejected requests, and its members' rights under the lock."""

import csv
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.signals import post_init
from django.test import Client
from django.utils import timezone

from accounts.models import (
    Account,
    ApiKey,
    DailyUsage,
    DeprecatedUse,
    Membership,
    OperationUsage,
    PlanCode,
    Role,
)
from accounts.quota.limits import HOUR, to_microseconds
from accounts.usage.write_behind import UsageRecorder
from tests.conftest import OPERATOR, Api
from tests.support.costs import count_queries
from tests.support.customers import add_rejection, ban, use_quota
from tests.support.members import member_of

PAGES = ["", "keys/", "requests/", "orders/"]
FORMS = ["issue", "{}/rotate", "{}/narrow", "{}/revoke"]
ISSUE = {"name": "Shop", "scopes": ["pets:read"]}
STAFF_TEXT = "secret-of-staff"


def url(account: Account, page: str, key: Any = None) -> str:
    return f"/account/{account.public_id}/{page.format(key)}"


@pytest.fixture
def other(db: None) -> Account:
    return Account.objects.create(name="Other", plan_id=PlanCode.FREE)


@pytest.mark.parametrize("becomes", ["removed", "reader", "deleted"])
def test_role_is_checked_again_under_the_lock(account: Account, key: ApiKey, becomes: str) -> None:
    """The membership changes after the first check, just before the account is locked."""
    client, member = member_of(account), Membership.objects.get()

    def lose_role(**_: Any) -> None:
        post_init.disconnect(lose_role, sender=Membership)
        rows: Any = Membership.objects.filter(pk=member.pk)
        if becomes == "deleted":  # The account and its members.
            rows = Account.objects.filter(pk=account.pk)
            ApiKey.objects.all().delete()
        rows.update(role=Role.READER) if becomes == "reader" else rows.delete()

    post_init.connect(lose_role, sender=Membership)
    response = client.post(url(account, "keys/issue/"), ISSUE)
    assert response.status_code == (403 if becomes == "reader" else 404)
    assert ApiKey.objects.count() == (becomes != "deleted")


@pytest.mark.same_on_both
def test_home_leads_to_the_only_account_or_lists_them(account: Account, other: Account) -> None:
    client = member_of(account)
    assert client.get("/account/")["Location"] == url(account, "")
    Membership.objects.create(account=other, user=User.objects.get(), role=Role.READER)
    for page in ("/account/", url(account, "")):  # The latter has a switcher.
        assert f'href="{url(other, "")}"' in client.get(page).text
    Membership.objects.all().delete()
    assert "you are not a member of an account yet" in client.get("/account/").text


def test_overview_sums_thirty_days_by_outcome_and_key(
    account: Account, issue: Any, other: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = issue(name="First")[0], issue(name="Second")[0]
    today = timezone.now().date()
    for key, days_ago, admitted, rejected in (
        (first, 0, 1_000, 5), (first, 29, 200, 0), (first, 30, 9_999, 9_999), (second, 1, 30, 2),
        (issue(of=other)[0], 0, 7_777, 7_777),
    ):  # fmt: skip
        day = today - timedelta(days=days_ago)
        DailyUsage.objects.create(key=key, day=day, admitted=admitted, rejected=rejected)
    for row, days_ago, calls in ((account, 0, 3), (account, 29, 4), (account, 30, 50), (other, 0, 600)):
        values = {"operation": "getPet", "last_call_at": timezone.now()}
        day = today - timedelta(days=days_ago)
        DeprecatedUse.objects.create(account=row, day=day, admitted=calls, **values)
    member = member_of(account)
    page = member.get(url(account, ""))
    assert "7 calls of the deprecated" in page.text
    assert {key.name: numbers for key, *numbers in page.context["keys"]} == {
        "First": [1_200, 5], "Second": [30, 2],
    }  # fmt: skip
    for key, *numbers in page.context["keys"]:
        chart = member.get(url(account, f"keys/{key.public_id}/")).context["chart"]
        assert [series.total for series in chart.series] == numbers
    assert "7,777" not in page.text
    monkeypatch.setattr("accounts.portal.account_views.MAX_LISTED_KEYS", 1)
    page = member.get(url(account, ""))
    assert [row[1:] for row in page.context["keys"]] == [(30, 2)]
    assert page.context["other_keys"] == [1_200, 5]  # Of keys beyond the listed ones.


@pytest.mark.parametrize(("used", "reached"), [(79_999, 0), (80_000, 80), (100_000, 100)])
def test_overview_names_the_highest_threshold_that_the_day_has_reached(
    account: Account, used: int, reached: int
) -> None:
    use_quota(account, used)
    assert member_of(account).get(url(account, "")).context["reached"] == reached


def test_overview_lists_keys_that_expire_within_a_week_without_a_replacement(
    account: Account, issue: Any
) -> None:
    expiring, replaced, _ = (
        issue(expires_at=timezone.now() + timedelta(days=days))[0] for days in (6, 30, 8)
    )
    replaced.rotate(by=OPERATOR)  # It expires in a day.
    assert member_of(account).get(url(account, "")).context["expiring"] == [expiring]


@pytest.mark.parametrize(("days", "included"), [("7", 1_000), ("30", 1_200), ("90", 1_230), ("x", 1_200)])
def test_overview_and_csv_have_the_same_numbers_of_the_chosen_period(
    account: Account, key: ApiKey, days: str, included: int
) -> None:
    today = timezone.now().date()
    for days_ago, admitted in ((6, 1_000), (7, 200), (30, 30), (90, 4)):
        DailyUsage.objects.create(
            key=key, day=today - timedelta(days=days_ago), admitted=admitted, rejected=2
        )
    client, query = member_of(account), {"days": days}
    page = client.get(url(account, ""), query)
    assert page.context["chart"].series[0].total == included
    assert sum(admitted for _, admitted, _ in page.context["keys"]) == included
    response = client.get(url(account, "usage.csv"), query)
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    header, *rows = csv.reader(response.text.splitlines())
    assert header == ["Day (UTC)", "Admitted", "Rejected (429)"]
    assert len(rows) == len(page.context["chart"].labels)
    for column, series in enumerate(page.context["chart"].series, 1):
        assert sum(int(row[column]) for row in rows) == series.total


def test_last_24_hours_and_operations_add_up_to_the_chart(
    account: Account, api: Api, usage_recorder: UsageRecorder, other: Account
) -> None:
    client = member_of(account)
    api.get("/pets")
    api.get("/pets/999")
    account.assign(PlanCode.ENTERPRISE, per_minute=2, per_day=500)
    api.get("/pets")
    usage_recorder.write()
    hour = to_microseconds(timezone.now()) // HOUR
    values = {"operation": "GET /v1/pets", "status": 200, "requests": 50}
    OperationUsage.objects.create(account=account, hours=1, start=hour - 24, **values)
    OperationUsage.objects.create(account=other, hours=1, start=hour, **values)
    for days in ("1", "7", "30", "90"):
        context = client.get(url(account, ""), {"days": days}).context
        operations = {(operation, status): count for operation, status, count in context["operations"]}
        assert operations == {
            ("GET /v1/pets", 200): 1, ("GET /v1/pets/{petId}", 404): 1, ("GET /v1/pets", 429): 1,
        }  # fmt: skip
        assert [series.total for series in context["chart"].series] == [2, 1]
        assert context["windows"][0][1]["used"] == 2
    assert len(client.get(url(account, ""), {"days": "1"}).context["chart"].labels) == 24
    csv_text = client.get(url(account, "usage.csv"), {"days": "1"}).text
    assert csv_text.startswith("Hour (UTC),Admitted,Rejected (429)")
    assert ",2,1" in csv_text


@pytest.mark.same_on_both
def test_members_never_see_texts_or_names_of_staff(account: Account, issue: Any, staff: Client) -> None:
    key, revoked = issue()[0], issue()[0]
    revoked.revoke(reason=STAFF_TEXT, by=OPERATOR)
    account.contact_email, account.notes = f"{STAFF_TEXT}@example.com", STAFF_TEXT
    account.save()
    account.change_plan(PlanCode.PRO, None, None, reason=STAFF_TEXT, by=OPERATOR)
    now = timezone.now()
    add_rejection(key, reason="api_key_banned", rejected_at=now, ban_ends_at=now + timedelta(hours=1))
    ban(key)
    staff.post(f"/admin/accounts/apikey/{key.pk}/unban/", {"reason": STAFF_TEXT})
    account.suspend(reason=STAFF_TEXT, by=OPERATOR)
    client = member_of(account)
    pages = (*PAGES, f"keys/{revoked}/", "requests/?q=req-1")
    texts = [client.get(url(account, page)).text for page in pages]
    assert all("This account is suspended." in text for text in texts)
    assert "Lifted 2" in texts[-1]
    for text in texts:
        assert STAFF_TEXT not in text
        assert "boss" not in text
        assert "kim@example.com" not in text


@pytest.mark.same_on_both
def test_no_page_costs_more_than_thirteen_queries(account: Account, issue: Any) -> None:
    """Neither do rejected forms. All have the switcher between accounts."""
    client = member_of(account)
    today, bad = timezone.now().date(), {"name": "x", "overlap_hours": "-1"}

    def add(count: int) -> None:
        for _ in range(count):
            key, _ = issue(name="Key")
            DailyUsage.objects.create(key=key, day=today, admitted=1)
            add_rejection(key)
            issue()[0].rotate(by=OPERATOR)
            issue()[0].revoke(reason="x", by=OPERATOR)
            other = Account.objects.create(name=f"Other {key}", plan_id=PlanCode.FREE)
            Membership.objects.create(account=other, user=User.objects.get(), role=Role.READER)

    def count() -> list[int]:
        key = ApiKey.objects.filter(rotated_to=None, revoked_at=None).first()
        forms = [*(url(account, f"keys/{page}/", key) for page in FORMS), url(account, "people/")]
        pages = ("", "keys/", "requests/", "orders/", "requests/?q=req-1", f"keys/{key}/", "usage.csv")
        paths = ["/account/", *(url(account, page) for page in pages), *forms]
        return [
            *(count_queries(lambda path=path: client.get(path)) for path in paths),  # type: ignore[misc]
            *(count_queries(lambda path=path: client.post(path, bad)) for path in forms),  # type: ignore[misc]
        ]

    add(1)
    count()
    before = count()
    add(3)
    assert count() == before
    assert max(before[: -len(FORMS) - 1]) <= 13


def test_foreign_and_unknown_requests_get_the_same_response(
    account: Account, key: ApiKey, other: Account, issue: Any
) -> None:
    foreign, _ = issue(of=other)
    for request_id in ("foreign-request", "same"):
        add_rejection(foreign, request_id=request_id)
    add_rejection(key, request_id="same")
    client, path = member_of(account), url(account, "requests/")
    ids = ("foreign-request", "unknown-request", "no ID at all")
    texts = {client.get(path, {"q": text}).text.replace(text, "") for text in ids}
    assert len(texts) == 1
    assert "No rejected request of this account has this ID." in texts.pop()
    explained = client.get(path, {"q": "same"}).context["explanations"]
    assert [found["rejection"].key for found in explained] == [key]


def test_latest_rejections_are_paginated(account: Account, key: ApiKey, other: Account, issue: Any) -> None:
    add_rejection(issue(of=other)[0])
    rows = [add_rejection(key) for _ in range(26)][::-1]
    client, path = member_of(account), url(account, "requests/")
    for query, link in (({}, "?"), ({"reason": rows[0].reason}, f"?reason={rows[0].reason}&amp;")):
        page = client.get(path, query)
        assert f'href="{link}before={rows[24].pk}"' in page.text
        last = client.get(path, query | {"before": rows[24].pk})
        assert "before=" not in last.text
        listed = [row for each in (page, last) for row, _ in each.context["latest"]]
        assert listed == rows
    for bad in ("x", "-1", "9" * 30, "0"):
        assert client.get(path, {"before": bad}).status_code == 200


REJECTIONS: list[dict[str, Any]] = [
    {"reason": "revoked"}, {"reason": "insufficient_scope", "scope": "pets:write"},
    {"reason": "rate_limit_exceeded"}, {"reason": "rate_limit_exceeded"},
]  # fmt: skip


def test_counts_of_rejections_match_their_lists(account: Account, issue: Any, other: Account) -> None:
    first, second = issue()[0], issue()[0]
    for values in REJECTIONS:
        add_rejection(first, **values)
        add_rejection(issue(of=other)[0], **values)
    add_rejection(second, rejected_at=timezone.now() - timedelta(days=2))
    client, path = member_of(account), url(account, "requests/")
    day = f"{timezone.now():%Y-%m-%d}"
    for filters, total in (({}, 5), ({"key": first.public_id}, 4), ({"key": second, "day": day}, 0)):
        page = client.get(path, filters)
        assert page.context["total"] == len(page.context["latest"]) == total
        for reason, code, _, count in page.context["counts"]:
            listed = client.get(path, filters | {"reason": reason}).context["latest"]
            assert len(listed) == count
            assert {shown for _, shown in listed} == {code}
    page = client.get(path)
    assert [(code.status, count) for _, code, _, count in page.context["counts"]] == [
        (429, 3), (403, 1), (401, 1),
    ]  # fmt: skip


@pytest.mark.same_on_both
def test_invalid_filters_list_nothing(account: Account, key: ApiKey, issue: Any, other: Account) -> None:
    add_rejection(key)
    foreign, _ = issue(of=other)
    client, path = member_of(account), url(account, "requests/")
    for filters in (
        {"key": foreign}, {"key": "0" * 14}, {"key": "' OR 1=1"}, {"reason": "x"}, {"day": "2026-13-45"},
        {"day": "10000-01-01"},
    ):  # fmt: skip
        page = client.get(path, filters)
        assert (page.status_code, page.context["latest"]) == (200, [])
        assert 'aria-invalid="true"' in page.text
    assert client.get(path, {"day": "9999-12-31"}).status_code == 200
