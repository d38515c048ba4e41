"""Access to the pages of an account, its overview, and its rejected requests."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.signals import post_init
from django.test import Client
from django.utils import timezone

from accounts.models import Account, ApiKey, DailyUsage, Membership, PlanCode, Role
from accounts.usage.write_behind import UsageRecorder
from tests.conftest import OPERATOR, Api
from tests.support.costs import check_page, count_queries
from tests.support.customers import add_rejection, ban
from tests.support.members import member_of, sign_in
from tests.support.staff import PASSWORD

PAGES = ["", "keys/", "requests/"]
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


# --- Access -----------------------------------------------------------------------------------------


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


def test_reader_cannot_change_keys(account: Account, key: ApiKey) -> None:
    client, before = member_of(account, Role.READER), get_rows(account)
    for page in PAGES:
        text = client.get(url(account, page)).text
        assert "keys/issue/" not in text
        assert "/revoke/" not in text
    for page in FORMS:
        for response in (
            client.get(url(account, page, key)),
            client.post(url(account, page, key), VALID[page]),
        ):
            assert response.status_code == 403
            assert (
                "Your role in Acme Pets is account reader. Ask an account owner or account developer."
                in response.text
            )
    assert get_rows(account) == before


@pytest.mark.parametrize("page", FORMS)
def test_developer_changes_keys(account: Account, key: ApiKey, page: str) -> None:
    client = member_of(account, Role.DEVELOPER)
    assert client.get(url(account, page, key)).status_code == 200
    before = get_rows(account)
    assert client.post(url(account, page, key), VALID[page]).status_code in {200, 302}
    assert get_rows(account) != before


@pytest.mark.parametrize("page", FORMS)
@pytest.mark.parametrize("becomes", ["removed", "reader", "deleted"])
def test_role_is_checked_again_under_the_lock(
    account: Account, key: ApiKey, page: str, becomes: str
) -> None:
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
    response = client.post(url(account, page, key), VALID[page])
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


def test_forms_require_a_csrf_token(account: Account, key: ApiKey) -> None:
    client, before = member_of(account), get_rows(account)
    client.handler.enforce_csrf_checks = True
    for page in (*FORMS, *PEOPLE):
        assert client.post(url(account, page, key), VALID.get(page)).status_code == 403
    assert get_rows(account) == before


def test_pages_are_neither_cached_nor_framed(account: Account, key: ApiKey) -> None:
    client = member_of(account)
    for page in (*PAGES, *FORMS, "people/"):
        response = client.get(url(account, page, key))
        assert "no-store" in response["Cache-Control"]
        assert response["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in response["Content-Security-Policy"]


def test_read_only_pages_reject_post(account: Account, key: ApiKey) -> None:
    client = member_of(account)
    for page in PAGES:
        assert client.post(url(account, page)).status_code == 405
        assert client.head(url(account, page)).status_code == 200


# --- Overview ---------------------------------------------------------------------------------------


def test_home_leads_to_the_only_account_or_lists_them(account: Account, other: Account) -> None:
    client = member_of(account)
    assert client.get("/account/")["Location"] == url(account, "")
    Membership.objects.create(account=other, user=User.objects.get(), role=Role.READER)
    page = client.get("/account/").text
    assert f'href="{url(account, "")}"' in page
    assert f'href="{url(other, "")}"' in page
    assert f'href="{url(other, "")}"' in client.get(url(account, "")).text  # The switcher.
    Membership.objects.all().delete()
    page = client.get("/account/").text
    assert "you are not a member of an account yet" in page
    assert "Ask an owner of the account to invite you" in page


def test_overview_shows_the_windows_that_the_api_shows(account: Account, key: Any, api: Api) -> None:
    client = member_of(account)
    for _ in range(3):
        api.get("/pets")
    shown = dict(client.get(url(account, "")).context["windows"])
    for name, window in api.get("/account").json()["quota"].items():
        assert [shown[name][part] for part in ("limit", "used", "remaining")] == [
            window["limit"], window["used"], window["remaining"],
        ]  # fmt: skip
        assert abs(shown[name]["resetsAt"] - datetime.fromisoformat(window["resetsAt"])) <= timedelta(
            seconds=1
        )
    assert shown["minute"]["used"] == 3


def test_overview_sums_thirty_days_by_outcome_and_key(account: Account, issue: Any, other: Account) -> None:
    first, second = issue(name="First")[0], issue(name="Second")[0]
    today = timezone.now().date()
    for key, days_ago, admitted, rejected in (
        (first, 0, 1_000, 5), (first, 29, 200, 0), (first, 30, 9_999, 9_999), (second, 1, 30, 2),
        (issue(of=other)[0], 0, 7_777, 7_777),
    ):  # fmt: skip
        day = today - timedelta(days=days_ago)
        DailyUsage.objects.create(key=key, day=day, admitted=admitted, rejected=rejected)
    page = member_of(account).get(url(account, ""))
    assert {key.name: numbers for key, *numbers in page.context["keys"]} == {
        "First": [1_200, 5], "Second": [30, 2],
    }  # fmt: skip
    assert [(day.admitted, day.rejected) for day in page.context["days"][:2]] == [(1_000, 5), (30, 2)]
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
    assert page.text.index("banned") < page.text.index("Requests left")


def test_overview_without_keys_shows_the_first_step(account: Account) -> None:
    client = member_of(account)
    for page in ("", "keys/"):
        text = client.get(url(account, page)).text
        assert "Issue your first key." in text
        assert f'href="{url(account, "keys/issue/")}"' in text
    text = member_of(account, Role.READER, "reader").get(url(account, "")).text
    assert "Ask an account owner or account developer to issue one." in text


def test_overview_links_to_support_for_a_larger_plan(account: Account, settings: Any) -> None:
    settings.SUPPORT_EMAIL = "help@pets.example"
    text = member_of(account).get(url(account, "")).text
    assert "Get a larger plan by email to" in text
    assert "mailto:help@pets.example?subject=Pet%20Store%3A%20Get%20a%20larger%20plan" in text


def test_navigation_marks_the_current_page(account: Account) -> None:
    client = member_of(account)
    for page, name in zip(PAGES, ("Overview", "Keys", "Requests"), strict=True):
        text = client.get(url(account, page)).text
        assert re.findall(r'aria-current="page">(\w+)', text) == [name]


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


def test_no_page_costs_more_than_ten_queries(account: Account, issue: Any) -> None:
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
        paths = ["/account/", *(url(account, page) for page in (*PAGES, "requests/?q=req-1")), *forms]
        return [
            *(count_queries(lambda path=path: client.get(path)) for path in paths),  # type: ignore[misc]
            *(count_queries(lambda path=path: client.post(path, bad)) for path in forms),  # type: ignore[misc]
        ]

    add(1)
    count()
    before = count()
    add(5)
    assert count() == before
    assert max(before[: -len(FORMS) - 1]) <= 10


# --- Rejected requests ------------------------------------------------------------------------------


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
    foreign = add_rejection(issue(of=other)[0], request_id="foreign-request")
    client = member_of(account)
    texts = {
        client.get(url(account, "requests/"), {"q": text}).text.replace(text, "")
        for text in (foreign.request_id, "unknown-request", "no ID at all", "' OR 1=1")
    }
    assert len({unescape(text).replace("' OR 1=1", "") for text in texts}) == 1
    assert "No rejected request of this account has this ID." in texts.pop()


def test_request_id_used_by_two_accounts_shows_only_the_own_request(
    account: Account, key: ApiKey, other: Account, issue: Any
) -> None:
    add_rejection(key, request_id="same")
    add_rejection(issue(of=other)[0], request_id="same", method="POST")
    page = member_of(account).get(url(account, "requests/"), {"q": "same"})
    assert [found["rejection"].key for found in page.context["explanations"]] == [key]


def test_latest_rejections_are_paginated(account: Account, key: ApiKey, other: Account, issue: Any) -> None:
    for number in range(60):
        add_rejection(key, request_id=f"request-{number}")
        if number % 20 == 0:
            add_rejection(issue(of=other)[0], request_id=f"foreign-{number}")
    client, path, seen, sizes = member_of(account), url(account, "requests/"), [], []
    query = ""
    while True:
        page = client.get(path + query)
        seen += [rejection.request_id for rejection in page.context["latest"]]
        sizes.append(len(page.context["latest"]))
        query = f"?before={page.context['next']}"
        assert (query in page.text) == bool(page.context["next"])
        if not page.context["next"]:
            break
    assert sizes == [25, 25, 10]
    assert seen == [f"request-{number}" for number in reversed(range(60))]
    for bad in ("x", "-1", "9" * 30, "0"):
        assert client.get(path, {"before": bad}).status_code == 200


def test_later_pages_cost_as_much_as_the_first(account: Account, key: ApiKey) -> None:
    client, row = member_of(account), add_rejection(key)
    check_page(lambda: client.get(url(account, "requests/"), {"before": row.pk + 1}), "accounts_refusal")
