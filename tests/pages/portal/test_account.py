"""Access to the pages of an account, its overview, and its rejected requests."""

from __future__ import annotations

import csv
import re
from datetime import datetime, timedelta
from html import unescape
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
from tests.support.costs import check_page, count_queries
from tests.support.customers import add_rejection, ban, use_quota
from tests.support.members import member_of, sign_in
from tests.support.staff import PASSWORD

PAGES = ["", "keys/", "requests/", "orders/"]
FORMS = ["keys/issue/", "keys/{}/rotate/", "keys/{}/narrow/", "keys/{}/revoke/"]
PEOPLE = ["people/", "people/leave/", "people/x/role/", "people/x/remove/", "people/x/withdraw/"]
ISSUE = {"name": "Shop", "scopes": ["pets:read"]}
VALID: dict[str, Any] = {
    "keys/issue/": ISSUE,
    "keys/{}/rotate/": {"overlap_hours": "24"},
    "keys/{}/narrow/": {"key_scopes": ["pets:read"], "reason": "Reads only"},
    "keys/{}/revoke/": {"reason": "Leaked"},
}
STAFF_TEXT = "secret-of-staff"


def url(account: Account, page: str, key: Any = None) -> str:
    return f"/account/{account.public_id}/{page.format(key)}"


def get_rows(account: Account) -> Any:
    return list(ApiKey.objects.filter(account=account).order_by("pk").values())


@pytest.fixture
def other(db: None) -> Account:
    return Account.objects.create(name="Other", plan_id=PlanCode.FREE)


def test_non_members_get_the_same_response_for_accounts_and_unknown_ids(
    account: Account, key: ApiKey, other: Account, boss: User
) -> None:
    member_of(account, name="ann")
    foreign = key.public_id
    for client in (member_of(other), sign_in(boss), sign_in(User.objects.create_user("no-one"))):
        for page in (*PAGES, *FORMS, *PEOPLE):
            for method in (client.get, client.post):
                texts = set()
                for public_id in (account.public_id, "0" * 8):
                    response: Any = method(f"/account/{public_id}/{page.format(foreign)}", VALID.get(page))
                    assert response.status_code == 404
                    texts.add(re.sub(public_id, "", re.sub(r'value="[^"]{64}"', "", response.text)))
                assert len(texts) == 1
    assert len(get_rows(account)) == 1
    assert key.get_state(timezone.now()) == "active"


def test_key_of_another_account_is_not_found(account: Account, other: Account, issue: Any) -> None:
    foreign, _ = issue(of=other)
    client = member_of(account)
    before = get_rows(other)
    for page in FORMS[1:]:
        for key_id in (foreign, "0" * 14, foreign.pk):
            assert client.get(url(account, page, key_id)).status_code == 404
            assert client.post(url(account, page, key_id), VALID[page]).status_code == 404
    assert get_rows(other) == before
    own, _ = issue()
    for verb in ("delete", "save", "unban", "lock"):  # Methods of keys without a page.
        assert client.post(url(account, f"keys/{own}/{verb}/"), VALID["keys/{}/revoke/"]).status_code == 404


def test_anonymous_visitors_are_redirected_to_sign_in(account: Account, key: ApiKey) -> None:
    for page in (*PAGES, *FORMS, *PEOPLE):
        path = url(account, page, key)
        for response in (Client().get(path), Client().post(path, VALID.get(page))):
            assert response["Location"] == f"/account/login/?next={path}"
    assert Client().get("/account/")["Location"] == "/account/login/?next=/account/"


def test_pages_are_neither_cached_nor_framed_and_need_the_csrf_token(account: Account, key: ApiKey) -> None:
    client, before = member_of(account), get_rows(account)
    client.handler.enforce_csrf_checks = True
    for page in (*PAGES, *FORMS, "people/"):
        response = client.get(url(account, page, key))
        assert "no-store" in response["Cache-Control"]
        assert response["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in response["Content-Security-Policy"]
    for page in (*FORMS, *PEOPLE):
        assert client.post(url(account, page, key), VALID.get(page)).status_code == 403
    client.handler.enforce_csrf_checks = False
    assert {client.post(url(account, page)).status_code for page in PAGES} == {405}
    assert get_rows(account) == before


def test_developer_changes_keys(account: Account, key: ApiKey) -> None:
    client = member_of(account, Role.DEVELOPER)
    for page in FORMS:
        assert client.get(url(account, page, key)).status_code == 200
    for page in ("keys/issue/", "keys/{}/narrow/", "keys/{}/rotate/", "keys/{}/revoke/"):
        before = get_rows(account)
        assert client.post(url(account, page, key), VALID[page]).status_code in {200, 302}
        assert get_rows(account) != before


def test_reader_cannot_change_keys(account: Account, key: ApiKey) -> None:
    client, before = member_of(account, Role.READER), get_rows(account)
    for page in PAGES:
        text = client.get(url(account, page)).text
        assert not [part for part in ("keys/issue/", "/revoke/") if part in text]
    text = "Your role in Acme Pets is account reader. Ask an account owner or account developer."
    for page in FORMS:
        path = url(account, page, key)
        for response in (client.get(path), client.post(path, VALID[page])):
            assert (response.status_code, text in response.text) == (403, True)
    assert get_rows(account) == before


@pytest.mark.parametrize("becomes", ["removed", "reader", "deleted"])
def test_role_is_checked_again_under_the_lock(account: Account, key: ApiKey, becomes: str) -> None:
    """The membership changes after the first check, just before the account is locked."""
    client, before = member_of(account), get_rows(account)
    member = Membership.objects.get()

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
    assert get_rows(account) == ([] if becomes == "deleted" else before)


def test_deactivated_user_is_signed_out(account: Account) -> None:
    client = member_of(account)
    User.objects.update(is_active=False)
    assert client.get(url(account, "keys/")).status_code == 302


def test_password_confirmation_is_required_after_two_hours(account: Account, key: ApiKey) -> None:
    member_of(account)
    client = sign_in(User.objects.get(), hours_ago=2.1)
    before = get_rows(account)
    for page in PAGES:
        assert client.get(url(account, page)).status_code == 200
    for page in (*FORMS, *PEOPLE):
        path = url(account, page, key)
        for response in (client.get(path), client.post(path, VALID.get(page))):
            assert response["Location"] == f"/account/confirm/?next={path}"
    assert get_rows(account) == before
    assert "Leaked" not in repr(client.session.items())  # Forms are not stored in the session.
    path = url(account, "keys/issue/")
    assert client.post(f"/account/confirm/?next={path}", {"password": PASSWORD})["Location"] == path
    assert client.get(path).status_code == 200
    assert sign_in(User.objects.get(), hours_ago=1.9).get(path).status_code == 200


def test_home_leads_to_the_only_account_or_lists_them(account: Account, other: Account) -> None:
    client = member_of(account)
    assert client.get("/account/")["Location"] == url(account, "")
    Membership.objects.create(account=other, user=User.objects.get(), role=Role.READER)
    for page in ("/account/", url(account, "")):  # The latter has a switcher.
        assert f'href="{url(other, "")}"' in client.get(page).text
    Membership.objects.all().delete()
    assert "you are not a member of an account yet" in client.get("/account/").text


def test_security_pages_keep_the_tabs_of_the_account_opened_last(account: Account, other: Account) -> None:
    client = member_of(account)
    Membership.objects.create(account=other, user=User.objects.get(), role=Role.READER)
    for opened in (account, other):
        client.get(url(opened, "orders/"))
        for page, current in (("", "page"), ("sessions/", "true"), ("app/", "true")):
            text = client.get(f"/account/security/{page}").text
            assert f'<a href="{url(opened, "keys/")}">Keys</a>' in text
            assert f'<a href="/account/security/" aria-current="{current}">Security</a>' in text
    Membership.objects.all().delete()
    assert "Keys</a>" not in client.get("/account/security/").text


def test_overview_shows_the_windows_that_the_api_shows(account: Account, key: Any, api: Api) -> None:
    client = member_of(account)
    for _ in range(3):
        api.get("/pets")
    shown = dict(client.get(url(account, "")).context["windows"])
    assert shown["minute"]["used"] == 3
    for name, window in api.get("/account").json()["quota"].items():
        ends = shown[name].pop("resetsAt"), datetime.fromisoformat(window.pop("resetsAt"))
        assert abs(ends[0] - ends[1]) <= timedelta(seconds=1)
        assert window.items() <= shown[name].items()


def test_overview_sums_thirty_days_by_outcome_and_key(account: Account, issue: Any, other: Account) -> None:
    first, second = issue(name="First")[0], issue(name="Second")[0]
    today = timezone.now().date()
    for key, days_ago, admitted, rejected in (
        (first, 0, 1_000, 5), (first, 29, 200, 0), (first, 30, 9_999, 9_999), (second, 1, 30, 2),
        (issue(of=other)[0], 0, 7_777, 7_777),
    ):  # fmt: skip
        day = today - timedelta(days=days_ago)
        DailyUsage.objects.create(key=key, day=day, admitted=admitted, rejected=rejected)
    member = member_of(account)
    page = member.get(url(account, ""))
    assert {key.name: numbers for key, *numbers in page.context["keys"]} == {
        "First": [1_200, 5], "Second": [30, 2],
    }  # fmt: skip
    for key, *numbers in page.context["keys"]:
        chart = member.get(url(account, f"keys/{key.public_id}/")).context["chart"]
        assert [series.total for series in chart.series] == numbers
    assert [row["cells"] for row in page.context["chart"].rows[:2]] == [
        [(1_000, ""), (5, "")], [(30, ""), (2, "")],
    ]  # fmt: skip
    assert "1,200" in page.text
    assert "7,777" not in page.text


def test_overview_shows_bans_and_expiring_keys_with_their_action(account: Account, issue: Any) -> None:
    soon = timezone.now() + timedelta(days=6)
    banned, expiring = issue(name="Banned")[0], issue(name="Expiring", expires_at=soon)[0]
    replaced = issue(name="Replaced", expires_at=soon)[0]
    replaced.rotate(by=OPERATOR)
    issue(name="Later", expires_at=soon + timedelta(days=2))
    ban(banned)
    client = member_of(account)
    page = client.get(url(account, ""))
    assert [key.name for key, _ in page.context["banned"]] == ["Banned"]
    assert {key.public_id for key in page.context["expiring"]} >= {expiring.public_id}
    assert replaced not in page.context["expiring"]
    assert "Later" not in [key.name for key in page.context["expiring"]]
    assert f'href="{url(account, "keys/{}/rotate/", expiring)}"' in page.text
    assert page.text.index("banned") < page.text.index("Limits</h2>")


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
    assert len(client.get(url(account, ""), {"days": "1"}).context["chart"].labels) == 24
    csv_text = client.get(url(account, "usage.csv"), {"days": "1"}).text
    assert csv_text.startswith("Hour (UTC),Admitted,Rejected (429)")
    assert ",2,1" in csv_text


def test_usage_of_keys_beyond_the_listed_ones_is_in_the_table(
    account: Account, issue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accounts.portal.account_views.MAX_LISTED_KEYS", 1)
    for admitted in (1, 20, 300):
        DailyUsage.objects.create(key=issue()[0], day=timezone.now().date(), admitted=admitted, rejected=1)
    page = member_of(account).get(url(account, ""))
    assert [row[1:] for row in page.context["keys"]] == [(300, 1)]
    assert page.context["other_keys"] == [21, 2]
    assert page.context["chart"].total == 324


@pytest.mark.parametrize(("used", "text"), [(0.799, ""), (0.8, "80%"), (0.999, "80%"), (1, "used up")])
def test_overview_warns_at_the_thresholds_of_the_day(account: Account, used: float, text: str) -> None:
    use_quota(account, round(account.limits.per_day * used))
    page = member_of(account).get(url(account, "")).text
    assert text in page
    assert ("today's requests" in unescape(page).lower()) == bool(text)


def test_overview_shows_only_own_calls_of_deprecated_operations(account: Account, other: Account) -> None:
    now = timezone.now()
    values = {"operation": "getPet", "last_call_at": now}
    for row, days_ago, calls in ((account, 0, 3), (account, 29, 4), (account, 30, 50), (other, 0, 600)):
        day = now.date() - timedelta(days=days_ago)
        DeprecatedUse.objects.create(account=row, day=day, admitted=calls, **values)
    text = member_of(account).get(url(account, "")).text
    assert "7 calls of the deprecated" in text
    assert "getPet" in text


def test_overview_without_keys_shows_the_first_step(account: Account) -> None:
    client = member_of(account)
    for page in ("", "keys/"):
        text = client.get(url(account, page)).text
        assert "Issue your first key." in text
        assert f'href="{url(account, "keys/issue/")}"' in text
    text = member_of(account, Role.READER, "reader").get(url(account, "")).text
    assert "Ask an account owner or account developer to issue one." in text


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
    texts = [client.get(url(account, page)).text for page in (*PAGES, "requests/?q=req-1")]
    assert all("This account is suspended." in text for text in texts)
    assert "Lifted 2" in texts[-1]
    for text in texts:
        assert STAFF_TEXT not in text
        assert "boss" not in text
        assert "kim@example.com" not in text


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
        forms = [url(account, page, key) for page in (*FORMS, "people/")]
        pages = (*PAGES, "requests/?q=req-1", f"keys/{key}/", "usage.csv")
        paths = ["/account/", *(url(account, page) for page in pages), *forms]
        return [
            *(count_queries(lambda path=path: client.get(path)) for path in paths),  # type: ignore[misc]
            *(count_queries(lambda path=path: client.post(path, bad)) for path in forms),  # type: ignore[misc]
        ]

    add(1)
    count()
    before = count()
    add(5)
    assert count() == before
    assert max(before[: -len(FORMS) - 1]) <= 13


def test_rejected_request_is_explained(account: Account, key: Any, usage_recorder: UsageRecorder) -> None:
    account.assign(PlanCode.ENTERPRISE, per_minute=1, per_day=500)
    api = Api(key.text)
    api.get("/pets")
    response = api.get("/pets/7")
    usage_recorder.write()
    client = member_of(account)
    text = unescape(client.get(url(account, "requests/"), {"q": f" {response['X-Request-Id']} "}).text)
    for part in (
        "The account had used up its requests for the minute.", "Wait as long as Retry-After says",
        "GET /v1/pets/{petId}", "rate_limit_exceeded", key.public_id,
    ):  # fmt: skip
        assert part in text


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
    foreign, _ = issue(of=other)
    for number in range(60):
        row = add_rejection(key, request_id=f"request-{number}")
        add_rejection(foreign, request_id=f"foreign-{number}")
    client, path, seen, sizes = member_of(account), url(account, "requests/"), [], []
    query: dict[str, Any] = {}
    while True:
        page = client.get(path, query)
        seen += [rejection.request_id for rejection, _ in page.context["latest"]]
        sizes.append(len(page.context["latest"]))
        query = {"before": page.context["next"]}
        if not query["before"]:
            break
        assert f"?before={query['before']}" in page.text
    assert sizes == [25, 25, 10]
    assert seen == [f"request-{number}" for number in reversed(range(60))]
    for bad in ("x", "-1", "9" * 30, "0"):
        assert client.get(path, {"before": bad}).status_code == 200
    check_page(lambda: client.get(path, {"before": row.pk + 1}), "accounts_rejection")


REJECTIONS: list[dict[str, Any]] = [
    {"reason": "revoked"}, {"reason": "insufficient_scope", "scope": "pets:write"},
    {"reason": "rate_limit_exceeded"}, {"reason": "rate_limit_exceeded"},
]  # fmt: skip


def test_counts_of_rejections_are_those_of_the_lists_behind_them(
    account: Account, issue: Any, other: Account
) -> None:
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
        counted = "recorded" + " with this key" * ("key" in filters) + " in the last 7 days:"
        assert (counted in page.text) is bool(total)
        for reason, code, _, count in page.context["counts"]:
            listed = client.get(path, filters | {"reason": reason}).context["latest"]
            assert len(listed) == count
            assert {shown for _, shown in listed} == {code}
    assert f"recorded with this key on {day}:" in client.get(path, {"key": first, "day": day}).text
    page = client.get(path)
    assert [(code.status, count) for _, code, _, count in page.context["counts"]] == [
        (429, 3), (403, 1), (401, 1),
    ]  # fmt: skip
    assert "401 Revoked key" in page.text
    assert "403 Missing scope" in page.text


def test_invalid_filters_list_nothing_and_say_so(
    account: Account, key: ApiKey, issue: Any, other: Account
) -> None:
    add_rejection(key)
    foreign, _ = issue(of=other)
    client, path, texts = member_of(account), url(account, "requests/"), set()
    for filters in (
        {"key": foreign}, {"key": "0" * 14}, {"key": "' OR 1=1"}, {"reason": "x"}, {"day": "2026-13-45"},
        {"day": "10000-01-01"},
    ):  # fmt: skip
        page = client.get(path, filters)
        assert (page.status_code, page.context["latest"]) == (200, [])
        assert 'aria-invalid="true"' in page.text
        texts.add(page.text.replace(str(filters.get("key")), "").replace("&#x27; OR 1=1", ""))
    assert client.get(path, {"day": "9999-12-31"}).status_code == 200


def test_pages_of_filtered_rejections_keep_the_filter(account: Account, key: ApiKey) -> None:
    for _ in range(26):
        add_rejection(key)
    page = member_of(account).get(url(account, "requests/"), {"reason": "rate_limit_exceeded"})
    assert f"?reason=rate_limit_exceeded&amp;before={page.context['next']}" in page.text
