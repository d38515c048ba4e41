"""Staff issue, rename, rotate and revoke keys."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from unittest.mock import Mock

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import IntegrityError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.key_forms import IssueKeyForm
from accounts.keys import key_format, scopes
from accounts.models import Account, ApiKey, DailyUsage
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR, Api
from tests.support.customers import ban, expire
from tests.support.staff import clerk_with, list_rows, page_url

pytestmark = pytest.mark.same_on_both
LIST = "/admin/accounts/apikey/"
ADD = f"{LIST}add/"
KEY_TEXT = re.compile(r"psk_live_[0-9A-Za-z_]{20,}")


@pytest.fixture
def form(account: Account) -> dict[str, Any]:
    """Valid data of the form that issues a key."""
    return {"account": account.pk, "name": "Shop", "scopes": list(scopes.SCOPES)}


def get_public_id(text: str) -> str:
    key_text = key_format.parse(text)
    assert key_text is not None
    return key_text.public_id


def test_key_text_is_shown_once_and_never_stored(
    staff: Client, form: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    page = staff.post(ADD, form)
    (text,) = set(KEY_TEXT.findall(page.text))
    assert "The key is shown only once." in page.text
    assert "no-store" in page["Cache-Control"]
    key, secret = ApiKey.objects.get(), text.split("_")[-1]
    stored = [list(model._default_manager.values()) for model in apps.get_models()]
    assert secret not in repr([stored, staff.session.items(), staff.cookies, capfd.readouterr()])
    for path in (page_url(key), page_url(key, "history"), LIST, "/admin/"):
        assert secret not in staff.get(path).text


def test_form_issues_one_key_however_often_it_is_submitted(staff: Client, form: dict[str, Any]) -> None:
    def open_form() -> dict[str, Any]:
        token = staff.get(ADD).context["adminform"].form["submission_token"].value()
        return form | {"submission_token": token}

    first = open_form()
    for invalid in ({"allowed_networks": "home"}, {"expires_at_0": "2300-01-01", "expires_at_1": "00:00"}):
        assert staff.post(ADD, first | invalid).context["errors"]  # May be corrected and submitted again.
    staff.post(ADD, first)
    assert "This key has already been issued." in staff.post(ADD, first).text
    assert ApiKey.objects.count() == 1
    staff.post(ADD, open_form())
    assert ApiKey.objects.count() == 2


INVALID: list[tuple[dict[str, Any], str]] = [
    ({"account": "999999"}, ""), ({"scopes": []}, ""), ({"name": "x" * 256}, ""),
    ({"allowed_networks": "home"}, ""), ({"allowed_networks": "10.0.0.0/8 " * 200}, ""),
    ({"allowed_networks": ":: " * 101}, "Enter at most 100 networks."),
    ({"expires_at_0": "2020-01-01", "expires_at_1": "00:00"}, "This time has passed."),
    ({"expires_at_0": "9999-12-31", "expires_at_1": "23:59:59"}, "within 100 years"),
    ({"expires_in": "30", "expires_at_0": "2099-01-02", "expires_at_1": "03:04"}, "not both"),
    ({"expires_in": "7"}, "Select a valid choice"),
]  # fmt: skip


def test_invalid_key_is_not_issued(staff: Client, form: dict[str, Any]) -> None:
    for sent, sentence in INVALID:
        response = staff.post(ADD, form | sent)
        [field] = response.context["adminform"].form.errors
        assert field == next(iter(sent)).removesuffix("_0")
        assert sentence in response.text
    assert not ApiKey.objects.exists()


def test_key_that_expires_while_it_is_issued_is_rejected(
    staff: Client, form: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IssueKeyForm, "clean_expires_at", lambda form: timezone.now())
    response = staff.post(ADD, form)
    assert (response.status_code, "must end later than it begins" in response.text) == (409, True)
    assert not ApiKey.objects.exists()


def test_digest_and_pepper_are_neither_shown_nor_sortable(staff: Client, key: ApiKey) -> None:
    for path in (page_url(key), LIST, page_url(key, "history")):
        text = staff.get(path).text.lower()
        assert not [part for part in (key.digest, "digest", "pepper") if part in text]
    assert list_rows(staff, LIST, q=key.digest) == []
    for column in range(1, 13):
        with CaptureQueriesContext(connection) as queries:
            staff.get(LIST, {"o": column})
        assert not [query for query in queries if re.search(r"ORDER BY.*digest", query["sql"])]


def test_key_is_found_by_public_id_name_and_account(staff: Client, issue: Any) -> None:
    key, _ = issue(name="Till 3")
    issue(of=Account.objects.create(name="Other", plan_id="free"), name="Sender")
    ids = [
        key.public_id[:length] for length in (key_format.PUBLIC_ID_LENGTH, 10, key_format.ACCOUNT_ID_LENGTH)
    ]
    for text in (*(f" {public_id} " for public_id in ids), "acme", "Pets", "till", "Till 3"):
        assert list_rows(staff, LIST, q=text) == [key], text
    for text in ("nobody", "%", "_" * 14):
        assert list_rows(staff, LIST, q=text) == [], text


def test_list_is_filtered_by_state_mode_plan_and_ban(staff: Client, key: ApiKey, issue: Any) -> None:
    now = timezone.now()
    soon, _ = issue(expires_at=now + timedelta(days=3))
    later, _ = issue(expires_at=now + timedelta(days=20))
    expired, _ = issue()
    expire(expired)
    revoked, _ = issue()
    revoked.revoke(reason="Leaked", by=OPERATOR)
    other, _ = issue(of=Account.objects.create(name="Other", plan_id="free"))
    ApiKey.objects.filter(pk=other.pk).update(mode="test")
    ban(other)
    assert list_rows(staff, LIST, state="active") == [other, later, soon, key]
    assert list_rows(staff, LIST, state="7") == [soon]
    assert list_rows(staff, LIST, state="30") == [later, soon]
    assert list_rows(staff, LIST, state="expired") == [expired]
    assert list_rows(staff, LIST, state="revoked") == [revoked]
    for query in ({"mode__exact": "test"}, {"plan": "free"}, {"state": "banned"}):
        assert list_rows(staff, LIST, **query) == [other]
    assert len(list_rows(staff, LIST, state="nothing", plan="\ufffd")) == 6


def test_revoked_key_is_read_only(staff: Client, key: ApiKey) -> None:
    verbs = ("revoke", "rotate", "narrow")
    assert all(page_url(key, verb) in staff.get(page_url(key)).text for verb in verbs)
    key.revoke(reason="Leaked", by=OPERATOR)
    before = ApiKey.objects.filter(pk=key.pk).values().get()
    page = staff.get(page_url(key)).text
    assert not [part for part in ('name="name"', 'name="_save"') if part in page]
    staff.post(page_url(key), {"name": "Alive", "revoked_reason": ""})
    for verb in verbs:
        assert page_url(key, verb) not in page
        response = staff.post(page_url(key, verb), {"reason": "Again"}, follow=True)
        assert response.redirect_chain == [(page_url(key), 302)]
        assert f"Key {key.public_id} is already revoked." in response.text
    assert ApiKey.objects.filter(pk=key.pk).values().get() == before
    assert key.audit_entries.count() == 2


def test_ban_of_a_revoked_key_can_be_lifted(staff: Client, key: ApiKey) -> None:
    ban(key)
    key.revoke(reason="Leaked", by=OPERATOR)
    staff.post(page_url(key, "unban"), {"reason": "They need a new one."})
    assert ApiKey.objects.get().get_ban_end(timezone.now()) is None


def test_usage_is_that_of_the_key(staff: Client, key: ApiKey, issue: Any) -> None:
    DailyUsage.objects.create(key=issue()[0], day=timezone.now().date(), admitted=5)
    assert staff.get(page_url(key)).context["usage_chart"] is None


def test_only_the_name_can_be_changed(staff: Client, account: Account, key: ApiKey) -> None:
    before = ApiKey.objects.filter(pk=key.pk).values().get()
    other = Account.objects.create(name="Other", plan_id="free")
    sent = {
        "name": "Renamed", "account": other.pk, "scopes": "pets:read", "public_id": "x", "mode": "test",
        "expires_at_0": "2999-01-01", "expires_at_1": "00:00", "digest": "0" * 64,
        "allowed_networks": "10.0.0.0/8",
    }  # fmt: skip
    staff.post(page_url(key), sent)
    assert ApiKey.objects.filter(pk=key.pk).values().get() == before | {"name": "Renamed"}


def test_rename_does_not_undo_a_concurrent_revocation(
    staff: Client, key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = ApiKey.save

    def save_after_revocation(self: ApiKey, **options: Any) -> None:
        ApiKey.objects.filter(pk=self.pk).update(revoked_at=timezone.now(), revoked_reason="Leaked")
        save(self, **options)

    monkeypatch.setattr(ApiKey, "save", save_after_revocation)
    staff.post(page_url(key), {"name": "Renamed"})
    key.refresh_from_db()
    assert key.name == "Renamed"
    assert key.revoked_at is not None


def test_action_is_rolled_back_and_gets_a_409_page_if_the_audit_entry_fails(
    staff: Client, key: ApiKey, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fail = Mock(side_effect=IntegrityError("duplicate key"))
    monkeypatch.setattr("petstore.audit.AuditEntry.objects.create", fail)
    page = staff.post(page_url(key, "revoke"), {"reason": "Leaked"})
    assert page.status_code == 409
    assert "Another user has just changed the same data" in page.text
    assert "duplicate key" in caplog.text
    key.refresh_from_db()
    assert key.revoked_at is None


@pytest.fixture
def limited_key(issue: Any) -> ApiKey:
    """A key with two scopes, two networks and an end with microseconds, which the form can't show."""
    end, networks = datetime(2100, 1, 31, 12, 30, 15, 123456, UTC), ["10.0.0.0/8", "127.0.0.1/32"]
    key: ApiKey
    key, _ = issue(expires_at=end, key_scopes=["pets:read", "orders:read"], allowed_networks=networks)
    return key


def test_narrowing_preserves_unchanged_rights(staff: Client, boss: User, limited_key: ApiKey) -> None:
    data: dict[str, Any] = {"allowed_networks": "127.0.0.1/32\r\n10.0.0.0/8\r\n", "reason": "Reads pets"}
    data |= {"key_scopes": ["pets:read", "orders:read"]}
    assert "Nothing would change" in staff.post(page_url(limited_key, "narrow"), data).text
    data |= {"key_scopes": ["pets:read"], "expires_at": ""}
    page = staff.post(page_url(limited_key, "narrow"), data, follow=True)
    assert f"Key {limited_key.public_id} has been restricted." in page.text
    assert "scopes: pets:read orders:read → pets:read" in unescape(re.sub(r"<[^>]+>", "", page.text))
    end = limited_key.expires_at
    limited_key.refresh_from_db()
    assert (limited_key.scopes, limited_key.expires_at) == ("pets:read", end)
    assert limited_key.max_expires_at is None
    entry = limited_key.audit_entries.get(action="narrowed")
    assert (entry.actor_id, entry.reason) == (boss.pk, "Reads pets")


@pytest.mark.parametrize(("hours", "status"), [("0", 401), ("24", 200)])
def test_rotation_shows_the_new_text_and_the_old_key_works_for_the_overlap(
    staff: Client, key: ApiKey, api: Api, hours: str, status: int
) -> None:
    ApiKey.objects.filter(pk=key.pk).update(created_at=timezone.now() - timedelta(days=1))
    before = timezone.now()
    page = staff.post(page_url(key, "rotate"), {} if hours == "24" else {"overlap_hours": hours})
    (text,) = set(KEY_TEXT.findall(page.text))
    assert ("has expired" in page.text, "works until" in page.text) == (hours == "0", hours != "0")
    assert "no-store" in page["Cache-Control"]
    key.refresh_from_db()
    assert get_public_id(text) == key.rotated_to.public_id
    assert key.expires_at is not None
    assert timedelta(0) <= key.expires_at - before - timedelta(hours=int(hours)) < timedelta(minutes=1)
    assert (api.get("/pets").status_code, Api(text).get("/pets").status_code) == (status, 200)
    if hours == "24":
        details = staff.get(page_url(key, "narrow")).context["details"]
        assert details["Replaced by"] == f"{key.rotated_to.public_id}, which keeps its rights"
        assert "has already been rotated" in staff.post(page_url(key, "rotate")).text
        assert ApiKey.objects.count() == 2


def test_overlap_is_at_most_thirty_days(staff: Client, key: ApiKey) -> None:
    for hours in ("-1", "721", "1.5", "9" * 30):
        page = staff.post(page_url(key, "rotate"), {"overlap_hours": hours})
        assert page.context["form"].errors.keys() == {"overlap_hours"}
    assert ApiKey.objects.count() == 1
    assert KEY_TEXT.search(staff.post(page_url(key, "rotate"), {"overlap_hours": "720"}).text)


def test_permission_to_add_does_not_include_viewing_nor_that_to_change_rotating(
    account: Account, form: dict[str, Any]
) -> None:
    client = clerk_with("add_apikey", "view_account")
    assert KEY_TEXT.search(client.post(ADD, form).text)
    key = ApiKey.objects.get()
    assert client.get(page_url(key)).status_code == 403
    User.objects.all().delete()
    assert clerk_with("view_apikey", "change_apikey").post(page_url(key, "rotate")).status_code == 403


def test_key_pasted_into_a_reason_is_redacted(staff: Client, key: ApiKey) -> None:
    secret = f"psk_live_{key.public_id}_{'x' * 40}"
    staff.post(page_url(key, "revoke"), {"reason": f"Leaked: {secret}"})
    key.refresh_from_db()
    reasons = [key.revoked_reason, *AuditEntry.objects.values_list("reason", flat=True)]
    assert "Leaked: psk_live_" in key.revoked_reason
    assert not [reason for reason in reasons if "xxxx" in reason]
