"""The page that explains rejections."""

from copy import copy
from datetime import UTC, datetime, timedelta
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


def test_each_reason_is_explained_by_its_response(staff: Client, key: ApiKey) -> None:
    for reason, response in {
        "rate_limit_exceeded": "429 <code>rate_limit_exceeded</code>",
        "daily_quota_exceeded": "429 <code>daily_quota_exceeded</code>",
        "api_key_banned": "429 <code>api_key_banned</code>",
        "revoked": "401 <code>invalid_api_key</code>",
        "expired": "401 <code>expired_api_key</code>",
        "network_not_allowed": "401 <code>invalid_api_key</code>",
        "suspended": "403 <code>account_suspended</code>",
        "insufficient_scope": "403 <code>insufficient_scope</code>",
    }.items():
        values: dict[str, Any] = {} if response.startswith("429") else NO_WINDOWS
        end = AT if reason == "api_key_banned" else None
        add_rejection(key, reason=reason, request_id=reason, ban_ends_at=end, **values)
        assert response in staff.get(PAGE, {"q": reason}).text


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
