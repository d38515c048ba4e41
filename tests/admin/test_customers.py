"""Pages of accounts and keys lead with what is, and lists to what staff do next."""

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.models import Account, ApiKey, DailyUsage, KeyStanding
from petstore.backoffice import audit
from petstore.backoffice.models import AuditEntry
from tests.admin.test_accounts import refuse
from tests.conftest import OPERATOR, Api
from tests.support.staff import clerk_who_may

ACCOUNTS = "/admin/accounts/account/"
KEYS = "/admin/accounts/apikey/"
WHY = "Kept sending after 429: 30 requests were refused within a minute. Banned for 5 minutes."


def page_of(row: Account | ApiKey, page: str = "change") -> str:
    return reverse(f"admin:accounts_{row._meta.model_name}_{page}", args=[row.pk])


def in_order(text: str, *parts: str) -> bool:
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


@pytest.fixture
def banned(key: ApiKey) -> ApiKey:
    """The key, banned for an hour."""
    now = round(timezone.now().timestamp() * 1_000_000)
    KeyStanding.objects.create(key=key, banned_at=now, banned_until=now + 3_600_000_000)
    audit.record(OPERATOR, key, audit.Action.BANNED, reason="An earlier one.")
    audit.record(OPERATOR, key, audit.Action.BANNED, reason=WHY)
    return key


# --- Pages ----------------------------------------------------------------------------------------


def test_the_page_of_an_account_has_use_keys_and_refusals_before_its_form(
    staff: Client, account: Account, key: ApiKey
) -> None:
    refuse(key)
    text = staff.get(page_of(account)).text
    assert in_order(
        text, "Use in the last 30 days", key.public_id, "Latest refusals", 'id="account_form"', "Timeline"
    )


def test_the_page_of_a_key_has_its_own_use_and_refusals_before_its_form(
    staff: Client, key: ApiKey, issue: Any
) -> None:
    other, _ = issue()
    today = timezone.now().date()
    DailyUsage.objects.create(key=key, day=today, requests=4_321, refusals=7)
    DailyUsage.objects.create(key=other, day=today, requests=9_999)
    refuse(key, request_id="of-mine")
    refuse(other, request_id="of-another")
    page = staff.get(page_of(key))
    assert in_order(
        page.text, "Use in the last 30 days", "of-mine", 'id="apikey_form"', "History of the key"
    )
    assert "4,321" in page.text
    assert "9,999" not in page.text
    assert "of-another" not in page.text


def test_the_page_of_a_key_leads_to_its_successor(staff: Client, key: ApiKey) -> None:
    new, _ = key.rotate(by=OPERATOR)
    assert f'replaced by <a class="office-link" href="{page_of(new)}"' in staff.get(page_of(key)).text
    assert page_of(key) in staff.get(page_of(new)).text


def test_the_page_of_a_banned_key_says_until_when_and_why(staff: Client, banned: ApiKey) -> None:
    text = unescape(staff.get(page_of(banned)).text)
    ends = f"{banned.ban_end(timezone.now()):%Y-%m-%d %H:%M} UTC"
    assert f"Banned until {ends}. {WHY}" in text


def test_who_may_see_keys_alone_sees_no_refusal(key: ApiKey) -> None:
    refuse(key)
    assert "req-1" not in clerk_who_may("view_apikey").get(page_of(key)).text


# --- Lists ----------------------------------------------------------------------------------------


def test_the_list_of_accounts_has_state_keys_and_last_use(
    staff: Client, account: Account, banned: ApiKey, issue: Any
) -> None:
    revoked, _ = issue()
    revoked.revoke(reason="Leaked", by=OPERATOR)
    used_at = timezone.now() - timedelta(hours=3)
    ApiKey.objects.filter(pk=banned.pk).update(last_used_at=used_at)
    Account.objects.create(name="Unused", plan_id="free")
    unused, acme = staff.get(ACCOUNTS, {"o": "-1"}).context["cl"].result_list
    assert (acme.active_keys, acme.banned_keys, acme.last_used_at) == (1, 1, used_at)
    assert (unused.active_keys, unused.banned_keys, unused.last_used_at) == (0, 0, None)
    text = staff.get(ACCOUNTS).text
    assert "1 key banned" in text
    assert "3\xa0hours ago" in text


def test_the_list_of_accounts_leads_to_a_new_key_and_another_plan(staff: Client, account: Account) -> None:
    links = (f"{KEYS}add/?account={account.pk}", page_of(account, "change_plan"))
    assert all(f'href="{link}"' in staff.get(ACCOUNTS).text for link in links)
    viewer = clerk_who_may("view_account").get(ACCOUNTS).text
    assert not any(f'href="{link}"' in viewer for link in links)


def test_see_why_leads_to_reason_and_end_of_each_ban(staff: Client, banned: ApiKey, issue: Any) -> None:
    issue()
    home = staff.get("/admin/")
    (step,) = [step for step in home.context["steps"] if step.verb == "See why"]
    for text in (staff.get(step.link).text, home.text):
        assert WHY in text
        assert page_of(banned, "unban") in text
    assert page_of(banned, "unban") not in staff.get(KEYS).text


def test_who_may_not_lift_a_ban_is_not_led_there(banned: ApiKey) -> None:
    viewer = clerk_who_may("view_apikey")
    assert WHY in viewer.get(KEYS, {"banned": "now"}).text
    assert page_of(banned, "unban") not in viewer.get(KEYS, {"banned": "now"}).text
    assert page_of(banned, "unban") not in viewer.get("/admin/").text


@pytest.mark.parametrize(
    ("path", "title"),
    [
        (ACCOUNTS, "Accounts"),
        (KEYS, "API keys"),
        ("/admin/inventory/pet/", "Pets"),
        ("/admin/backoffice/auditentry/", "Audit trail"),
        ("/admin/auth/user/", "Staff"),
    ],
)
def test_a_list_is_named_by_what_it_lists(staff: Client, path: str, title: str) -> None:
    assert f"<title>{title} | Pet Store</title>" in " ".join(staff.get(path).text.split()).replace(
        "<title> ", "<title>"
    ).replace(" </title>", "</title>")


# --- Another plan ---------------------------------------------------------------------------------


def test_another_plan_holds_at_once_and_is_on_record_with_its_reason(
    staff: Client, boss: User, account: Account, api: Api
) -> None:
    assert api.get("/pets")["X-RateLimit-Limit"] == "1000"
    sent = {"reason": "They asked for less", "choice": "pro"}
    page = staff.post(page_of(account, "change_plan"), sent, follow=True)
    assert "The plan of Acme Pets is Pro now, with 300 requests a minute and 10,000 a day." in page.text
    assert api.get("/pets")["X-RateLimit-Limit"] == "300"
    entry = AuditEntry.objects.about(account).get()
    assert (entry.action, entry.actor_id, entry.reason) == ("changed", boss.pk, "They asked for less")
    assert (entry.before, entry.after) == ({"plan": "business"}, {"plan": "pro"})


def test_enterprise_takes_its_numbers(staff: Client, account: Account) -> None:
    sent = {"reason": "Agreed", "choice": "enterprise", "per_minute": "7", "per_day": "8"}
    assert staff.post(page_of(account, "change_plan"), sent).status_code == 302
    sent["per_day"] = "9"
    assert staff.post(page_of(account, "change_plan"), sent).status_code == 302
    account.refresh_from_db()
    assert account.limits == (7, 9)


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({"choice": "pro"}, "This field is required."),
        ({"choice": "enterprise", "reason": "x"}, "needs both numbers"),
        ({"choice": "pro", "reason": "x", "per_day": "7"}, "Leave both empty."),
        ({"choice": "business", "reason": "x"}, "has this plan, with these numbers, already"),
        ({"choice": "gold", "reason": "x"}, ""),
        ({"choice": "enterprise", "reason": "x", "per_minute": "0", "per_day": "9" * 30}, "less than or"),
    ],
)
def test_a_plan_with_a_mistake_changes_nothing(
    staff: Client, account: Account, sent: dict[str, str], sentence: str
) -> None:
    page = staff.post(page_of(account, "change_plan"), sent)
    assert page.status_code == 200
    assert sentence in page.text
    account.refresh_from_db()
    assert account.plan_id == "business"
    assert not AuditEntry.objects.about(account).exists()


def test_the_return_key_chooses_no_plan(staff: Client, account: Account) -> None:
    """Browsers press a form's first button then, unless it is disabled (HTML, implicit submission)."""
    text = staff.get(page_of(account, "change_plan")).text
    form = text[text.index('id="confirm-form"') :]
    assert form.index("<button") == form.index('<button type="submit" disabled hidden>')
    assert "Move to Business" not in form


def test_who_may_not_change_accounts_changes_no_plan(account: Account) -> None:
    viewer = clerk_who_may("view_account")
    sent = {"reason": "x", "choice": "free"}
    assert viewer.post(page_of(account, "change_plan"), sent).status_code == 403
