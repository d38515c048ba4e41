"""Suspending an account in the back office: who may, what is asked, and where it shows."""

from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from accounts.models import Account, ApiKey
from petstore.backoffice.models import AuditEntry
from tests.conftest import OPERATOR, Api
from tests.support.staff import clerk_who_may, member_of, signed_in

LIST = "/admin/accounts/account/"


def page_of(account: Account, page: str = "change") -> str:
    return reverse(f"admin:accounts_account_{page}", args=[account.pk])


def titles(client: Client, text: str) -> list[str]:
    return [result.title for result in client.post("/admin/search/", {"s": text}).context["results"]]


def test_its_keys_are_refused_from_the_next_request_on_until_it_is_lifted(
    staff: Client, boss: User, account: Account, api: Api
) -> None:
    page = staff.post(page_of(account, "suspend"), {"reason": "Unpaid"}, follow=True)
    assert "Acme Pets is suspended." in page.text
    assert api.get("/pets").json()["code"] == "account_suspended"
    page = staff.post(page_of(account, "lift_suspension"), {"reason": "Paid"}, follow=True)
    assert "The suspension of Acme Pets is lifted." in page.text
    assert api.get("/pets").status_code == 200
    entries = AuditEntry.objects.about(account).order_by("id")
    assert list(entries.values_list("action", "actor_id", "reason")) == [
        ("suspended", boss.pk, "Unpaid"),
        ("suspension_lifted", boss.pk, "Paid"),
    ]


def test_the_question_says_whom_it_stops(staff: Client, account: Account, key: ApiKey) -> None:
    page = staff.get(page_of(account, "suspend"))
    assert page.context["facts"]["Active keys"] == 1
    assert "403 account_suspended" in page.text
    account.refresh_from_db()
    assert account.suspended_at is None


@pytest.mark.parametrize("reason", ["", "  ", "x" * 256])
def test_it_needs_a_reason(staff: Client, account: Account, reason: str) -> None:
    page = staff.post(page_of(account, "suspend"), {"reason": reason})
    assert page.context["form"].errors.keys() == {"reason"}
    account.refresh_from_db()
    assert account.suspended_at is None


def test_what_is_done_already_is_said_on_the_page(staff: Client, account: Account) -> None:
    assert "is not suspended." in staff.post(page_of(account, "lift_suspension"), {"reason": "x"}).text
    account.suspend(reason="Unpaid", by=OPERATOR)
    assert "is suspended already." in staff.post(page_of(account, "suspend"), {"reason": "x"}).text


def test_it_shows_on_the_page_the_list_and_the_keys(
    staff: Client, account: Account, key: ApiKey, issue: Any
) -> None:
    assert "Suspend</a>" in "".join(staff.get(page_of(account)).text.split("\n")).replace("  ", "")
    Account.objects.create(name="Other", plan_id="free")
    account.suspend(reason="Unpaid", by=OPERATOR)
    page = staff.get(page_of(account))
    assert "so all its keys are refused. The reason: Unpaid" in page.text
    assert page.context["panels"]["timeline"][0].what == "Suspended"
    assert "Lift the suspension" in page.text
    for state, found in (("suspended", [account.name]), ("active", ["Other"])):
        listed = staff.get(LIST, {"state": state}).context["cl"].result_list
        assert [one.name for one in listed] == found
    assert "Account suspended" in staff.get("/admin/accounts/apikey/").text


def test_a_contact_and_notes_are_kept_for_staff_alone(staff: Client, account: Account, api: Api) -> None:
    form = {
        "name": account.name,
        "plan": "business",
        "contact_email": "ann@acme.test",
        "notes": "Calls Ann",
    }
    assert staff.post(page_of(account), form).status_code == 302
    text = unescape(staff.get(page_of(account)).text)
    assert "ann@acme.test" in text
    assert "Calls Ann" in text
    assert "Changed contact email, notes" in text
    entry = AuditEntry.objects.about(account).latest("id")
    assert "ann@acme.test" not in f"{entry.before}{entry.after}"
    assert entry.after.keys() == {"contact_email", "notes"}
    assert "acme.test" not in api.get("/account").text


def test_a_contact_is_an_email_address(staff: Client, account: Account) -> None:
    page = staff.post(page_of(account), {"name": "Acme", "plan": "pro", "contact_email": "Ann"})
    assert page.context["adminform"].form.errors.keys() == {"contact_email"}


def test_the_palette_suspends_and_lifts(staff: Client, account: Account) -> None:
    assert titles(staff, "suspend acme") == ["Suspend Acme Pets"]
    assert titles(staff, "lift suspension acme") == []
    account.suspend(reason="Unpaid", by=OPERATOR)
    assert titles(staff, "suspend acme") == []
    assert titles(staff, "lift the suspension of acme") == ["Lift the suspension of Acme Pets"]
    (result,) = staff.post("/admin/search/", {"s": "lift acme"}).context["results"]
    assert result.link == page_of(account, "lift_suspension")


def test_who_may_not_change_accounts_may_not_suspend_them(account: Account) -> None:
    viewer = clerk_who_may("view_account")
    assert viewer.post(page_of(account, "suspend"), {"reason": "x"}).status_code == 403
    assert page_of(account, "suspend") not in viewer.get(page_of(account)).text
    assert titles(viewer, "suspend acme") == []
    support = signed_in(member_of("Support"))
    assert support.post(page_of(account, "suspend"), {"reason": "x"}).status_code == 302


def test_no_key_is_issued_to_a_suspended_account(staff: Client, account: Account) -> None:
    account.suspend(reason="Unpaid", by=OPERATOR)
    form = f"{reverse('admin:accounts_apikey_add')}?account={account.pk}"
    for path in (page_of(account), LIST):
        assert "Issue a key" not in staff.get(path).text
    assert "Issue a key for Acme Pets" not in titles(staff, "acme")
    page = staff.post(form, {"account": account.pk, "name": "Till", "scopes": ["pets:read"]})
    assert "Acme Pets is suspended, so its keys are refused. Lift the suspension first." in page.text
    assert not account.keys.exists()


def test_a_key_that_is_rotated_meanwhile_says_that_it_does_not_work_yet(
    staff: Client, account: Account, key: ApiKey
) -> None:
    account.suspend(reason="Unpaid", by=OPERATOR)
    page = staff.post(reverse("admin:accounts_apikey_rotate", args=[key.pk]), {"overlap_hours": 1})
    assert "this key works once the suspension is lifted" in page.text
