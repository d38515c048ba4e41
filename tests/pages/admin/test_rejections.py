"""The page that explains rejections."""

import re
from copy import copy
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Q
from django.test import Client
from django.utils import timezone

from accounts.models import Account, ApiKey, Rejection
from petstore import compatibility
from tests.conftest import OPERATOR
from tests.support import customers
from tests.support.customers import ban
from tests.support.skips import READS_PLANS
from tests.support.staff import clerk_with, page_url

PAGE = "/admin/accounts/rejection/"
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
NO_WINDOWS = dict.fromkeys(
    ("minute_limit", "minute_used", "minute_ends_at", "day_limit", "day_used", "day_ends_at")
)


def add_rejection(key: ApiKey, **values: Any) -> Rejection:
    defaults: dict[str, Any] = {
        "rejected_at": AT, "minute_limit": 1_000, "minute_used": 1_000,
        "minute_ends_at": AT + timedelta(seconds=13), "day_limit": 100_000, "day_used": 4_321,
        "day_ends_at": datetime(2026, 3, 5, tzinfo=UTC),
    }  # fmt: skip
    return customers.add_rejection(key, **defaults | values)


def test_lifted_ban_is_shown_as_lifted(staff: Client, key: ApiKey) -> None:
    now = timezone.now()
    end = now + timedelta(minutes=5)
    add_rejection(key, reason="api_key_banned", rejected_at=now - timedelta(minutes=1), ban_ends_at=end)
    (explanation,) = staff.get(PAGE, {"q": "req-1"}).context["explanations"]
    assert explanation["ban"] == f"Ends {end:%Y-%m-%d %H:%M} UTC"
    ban(key)
    staff.post(f"/admin/accounts/apikey/{key.pk}/unban/", {"reason": "Fixed"})
    (explanation,) = staff.get(PAGE, {"q": "req-1"}).context["explanations"]
    assert re.fullmatch(r"Lifted [\d-]+ [\d:]+ UTC by boss", explanation["ban"])


def test_both_windows_are_shown_with_their_bounds_newest_first(staff: Client, key: ApiKey) -> None:
    add_rejection(key)
    add_rejection(key, reason="daily_quota_exceeded")
    page = staff.get(PAGE, {"q": " req-1 "})
    for text in (
        "2026-03-04 05:06:07 UTC", "2026-03-04 05:05:20 UTC", "2026-03-04 05:06:20 UTC", "Acme Pets",
        "2026-03-04 00:00:00 UTC", "2026-03-05 00:00:00 UTC", "4,321", "100,000", key.public_id,
        "GET /v1/pets", "The account had used up its requests for the minute.",
    ):  # fmt: skip
        assert text in unescape(page.text), text
    assert len(re.findall(r">\s*full\s*<", page.text)) == 2  # The minute of each.
    reasons = [item["rejection"].get_reason_display() for item in page.context["explanations"]]
    assert reasons == ["Daily quota", "Minute limit"]


EXPLANATIONS = [
    ("rate_limit_exceeded", "429 <code>rate_limit_exceeded</code>", "Wait as long as Retry-After says"),
    ("daily_quota_exceeded", "429 <code>daily_quota_exceeded</code>", "Wait until the day ends"),
    ("api_key_banned", "429 <code>api_key_banned</code>", "Correct the program"),
    ("revoked", "401 <code>invalid_api_key</code>", "Use another key of the account"),
    ("expired", "401 <code>expired_api_key</code>", "Use its replacement"),
    ("network_not_allowed", "401 <code>invalid_api_key</code>", "Send from a network that the key allows"),
    ("suspended", "403 <code>account_suspended</code>", "lift the suspension"),
    ("insufficient_scope", "403 <code>insufficient_scope</code>", "Use a key that has the scope"),
]


def test_each_reason_is_explained_with_advice_and_address(staff: Client, issue: Any) -> None:
    key, _ = issue(allowed_networks=["203.0.113.0/24"])
    for reason, response, advice in EXPLANATIONS:
        by_quota = response.startswith("429")
        scope = "pets:write" if reason == "insufficient_scope" else ""
        ends = AT + timedelta(minutes=5) if reason == "api_key_banned" else None
        windows = {} if by_quota else NO_WINDOWS
        values = {"reason": reason, "request_id": reason, "scope": scope, "ban_ends_at": ends, **windows}
        add_rejection(key, address="192.0.2.7", **values)
        text = staff.get(PAGE, {"q": reason}).text
        for part in (response, advice, "192.0.2.7", scope):
            assert part in text, reason
        assert ("203.0.113.0/24" in text) == (reason == "network_not_allowed")
        assert ("2026-03-04 05:11 UTC" in text) == (reason == "api_key_banned")
        assert ("Window at that time" in text) == by_quota


def test_next_steps_remove_the_cause_if_it_applies_and_is_permitted(staff: Client, issue: Any) -> None:
    key, _ = issue()
    account = key.account
    clerk = clerk_with("view_rejection")

    def list_steps(client: Client, reason: str) -> list[tuple[str, str]]:
        rejection = add_rejection(key, reason=reason, request_id=reason, ban_ends_at=AT)
        steps = client.get(PAGE, {"q": reason}).text.partition('<div class="next-steps">')[2]
        rejection.delete()
        links = re.findall(r'<a href="([^"]*)" class="step-button plain">([^<]*)</a>', steps)
        return [(text, link) for link, text in links]

    issue_step = ("Issue a key", f"/admin/accounts/apikey/add/?account={account.pk}")
    pages = {"Change the plan": "change_plan", "Try other limits": "what_if"}
    limits = [(text, page_url(account, page)) for text, page in pages.items()]
    assert list_steps(staff, "api_key_banned") == []  # It has ended.
    ban(key)
    new, _ = key.rotate(by=OPERATOR)
    for reason, steps in {
        "rate_limit_exceeded": limits,
        "daily_quota_exceeded": limits,
        "api_key_banned": [("Lift the ban", page_url(key, "unban"))],
        "revoked": [issue_step],
        "expired": [("Open its replacement", page_url(new)), issue_step],
        "network_not_allowed": [("Open the key", page_url(key)), issue_step],
        "suspended": [],
        "insufficient_scope": [issue_step],
    }.items():
        assert list_steps(staff, reason) == steps, reason
        assert list_steps(clerk, reason) == [], reason
    account.suspend(reason="Unpaid", by=OPERATOR)
    assert list_steps(staff, "suspended") == [("Lift the suspension", page_url(account, "lift_suspension"))]
    assert list_steps(staff, "revoked") == []


def test_unknown_request_id_gets_possible_reasons(staff: Client, settings: Any) -> None:
    settings.REJECTION_RETENTION_DAYS = 3
    text = unescape(staff.get(PAGE, {"q": "req-unknown"}).text)
    for sentence in ("No rejection was found for", "req-unknown", "older than 3 days", "had no key"):
        assert sentence in text
    assert "No rejection was found" not in staff.get(PAGE).text


def test_other_text_finds_nothing(staff: Client, key: ApiKey) -> None:
    add_rejection(key)
    for text in ("a b", "<script>alert(1)</script>", "'; DROP TABLE", "\U0010ffff", "x" * 129, "%", "_"):
        page = staff.get(PAGE, {"q": text})
        assert (page.context["explanations"], list(page.context["matches"])) == ([], [])
        assert "No rejection was found" in page.text
        assert "<script>alert" not in page.text


def list_request_ids(client: Client, **query: str) -> list[str]:
    return [rejection.request_id for rejection in client.get(PAGE, query).context["matches"]]


def test_page_needs_the_view_permission(key: ApiKey) -> None:
    add_rejection(key)
    page = clerk_with("view_rejection").get(PAGE, {"q": "req-1"})
    assert (page.status_code, page_url(key.account) in page.text) == (200, False)
    User.objects.all().delete()
    assert clerk_with("view_account").get(PAGE, {"q": "req-1"}).status_code == 403


@pytest.fixture
def key_with_rejections(key: ApiKey, issue: Any) -> ApiKey:
    """A key with rejections. Another key of its account and one of another account have some, too."""
    now = timezone.now()
    add_rejection(key, request_id="old", rejected_at=now - timedelta(hours=30))
    add_rejection(key, request_id="recent", rejected_at=now - timedelta(hours=2))
    add_rejection(issue()[0], request_id="same-account", rejected_at=now - timedelta(minutes=5))
    other = Account.objects.create(name="Other", plan_id="free")
    add_rejection(issue(of=other)[0], request_id="other-account", rejected_at=now)
    return key


def test_rejections_are_filtered_by_key_account_or_time(staff: Client, key_with_rejections: ApiKey) -> None:
    assert list_request_ids(staff) == ["other-account", "same-account", "recent", "old"]
    assert 'href="?q=recent"' in staff.get(PAGE).text
    assert list_request_ids(staff, q=key_with_rejections.public_id) == ["recent", "old"]
    for account in ("acme", "Acme Pets", key_with_rejections.account.public_id):
        assert list_request_ids(staff, q=account) == ["same-account", "recent", "old"]
    assert list_request_ids(staff, q="Acme", hours="1") == ["same-account"]
    assert list_request_ids(staff, q=key_with_rejections.public_id, hours="24") == ["recent"]


@READS_PLANS
def test_latest_rejections_of_a_key_or_account_use_an_index(key: ApiKey) -> None:
    other = Account.objects.create(name="Others", plan=key.account.plan)
    rejection = add_rejection(ApiKey.objects.issue(other, by=OPERATOR)[0])
    rejection.pk = None
    Rejection.objects.bulk_create([copy(rejection) for _ in range(2_000)])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE accounts_rejection")
    for name in ("key", "account"):
        rows = Rejection.objects.newest(Q(**{f"{name}__in": [1]}))
        assert f"rejection_by_{name}" in rows.explain()


def test_earlier_address_redirects_with_its_search(staff: Client) -> None:
    response = staff.get(f"/{compatibility.REJECTIONS_PAGE}", {"q": "req-1"})
    assert response.headers["Location"] == f"{PAGE}?q=req-1"
