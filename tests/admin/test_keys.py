"""Staff issue, rename, rotate and revoke keys; the text of a key shows once."""

import re
import time
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from unittest.mock import ANY

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import IntegrityError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from accounts import key_text, scopes
from accounts.models import Account, ApiKey, DailyUsage, KeyStanding
from petstore.backoffice.models import AuditEntry
from tests.conftest import OPERATOR, Api
from tests.support.staff import clerk_who_may

LIST = "/admin/accounts/apikey/"
ADD = f"{LIST}add/"
FORM = re.compile(r"psk_live_[0-9A-Za-z_]{20,}")


def page_of(key: ApiKey, page: str = "change") -> str:
    return reverse(f"admin:accounts_apikey_{page}", args=[key.pk])


def signed_in(user: User, **options: Any) -> Client:
    client = Client(raise_request_exception=False, **options)
    client.force_login(user)
    return client


@pytest.fixture
def form(account: Account) -> dict[str, Any]:
    """What staff fill in to issue a key."""
    return {"account": account.pk, "name": "Shop", "scopes": list(scopes.SCOPES)}


def public_id_in(text: str) -> str:
    found = key_text.split(text)
    assert found is not None
    return found.public_id


def found(staff: Client, **query: str) -> list[ApiKey]:
    return list(staff.get(LIST, query).context["cl"].result_list)


# --- Issuing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("days", [30, 90, 365])
def test_a_key_ends_after_the_chosen_span(staff: Client, form: dict[str, Any], days: int) -> None:
    before = timezone.now()
    assert staff.post(ADD, form | {"ends": str(days)}).status_code == 200
    end = ApiKey.objects.get().expires_at
    assert end is not None
    assert timedelta(0) <= end - before - timedelta(days=days) < timedelta(minutes=5)


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({"ends": "30", "expires_at_0": "2099-01-02", "expires_at_1": "03:04"}, "not both"),
        ({"ends": "7"}, "Select a valid choice"),
        ({"ends": "x"}, "Select a valid choice"),
    ],
)
def test_a_key_with_no_clear_end_is_not_issued(
    staff: Client, form: dict[str, Any], sent: dict[str, str], sentence: str
) -> None:
    assert sentence in staff.post(ADD, form | sent).text
    assert not ApiKey.objects.exists()


def test_the_form_says_what_each_scope_allows(staff: Client) -> None:
    page = unescape(staff.get(ADD).text)
    for scope in scopes.SCOPES:
        assert f"{scope}: {scopes.MEANINGS[scope]}" in page


def test_the_form_begins_with_what_only_reads(staff: Client) -> None:
    page = staff.get(ADD).text
    ticked = [scope for scope in scopes.SCOPES if re.search(rf'value="{scope}"[^>]* checked[ >]', page)]
    assert ticked == ["pets:read", "orders:read", "events:read"]


def test_a_key_is_issued_as_the_form_says(
    staff: Client, boss: User, account: Account, form: dict[str, Any]
) -> None:
    form |= {"scopes": ["pets:write", "pets:read"], "allowed_networks": "10.0.0.0/8\n\n 2001:db8::/32\n"}
    form |= {"expires_at_0": "2099-01-02", "expires_at_1": "03:04:05"}
    response = staff.post(ADD, form)
    key = ApiKey.objects.get()
    assert (key.account, key.name, key.scopes) == (account, "Shop", "pets:read pets:write")
    assert key.allowed_networks == ["10.0.0.0/8", "2001:db8::/32"]
    assert key.expires_at == datetime(2099, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert public_id_in(response.context["text"]) == key.public_id
    event = key.events.get()
    assert (event.action, event.actor_id, event.actor_name) == ("issued", boss.pk, "boss")


def test_an_issued_key_opens_the_api(staff: Client, form: dict[str, Any]) -> None:
    text = staff.post(ADD, form).context["text"]
    assert Api(text).get("/pets").status_code == 200


def test_the_text_of_a_key_shows_on_one_page_and_is_kept_nowhere(
    staff: Client, form: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    page = staff.post(ADD, form)
    (text,) = set(FORM.findall(page.text))
    assert page.status_code == 200
    assert "It is shown only this once." in page.text
    assert "no-store" in page["Cache-Control"]
    key = ApiKey.objects.get()
    secret = text.removeprefix(f"psk_live_{key.public_id}_")
    kept: list[Any] = [session.get_decoded() for session in Session.objects.all()]
    kept += [str(cookie) for cookie in staff.cookies.values()]
    kept += [list(model._default_manager.values()) for model in (LogEntry, ApiKey, AuditEntry)]
    kept += [caplog.text]
    assert secret not in repr(kept)
    for path in (
        page_of(key),
        page_of(key, "history"),
        reverse("admin:accounts_apikey_changelist"),
        "/admin/",
    ):
        assert secret not in staff.get(path).text


def test_the_page_of_a_new_key_copies_it_and_has_a_line_to_try_it(
    staff: Client, form: dict[str, Any], settings: Any
) -> None:
    page = staff.post(ADD, form)
    text = page.context["text"]
    assert f">{text}</code>" in page.text
    assert 'data-copy="key-text" data-said="said"' in page.text
    assert 'id="said" role="status" aria-live="polite"' in page.text
    assert "It is shown only this once." in page.text
    assert f"Authorization: Bearer {text}" in unescape(page.text)
    assert f"{settings.BASE_URL}/pets" in page.text


def test_the_form_of_a_new_key_knows_the_account_that_somebody_comes_from(
    staff: Client, account: Account
) -> None:
    page = staff.get(ADD, {"account": account.pk})
    assert page.context["adminform"].form.initial["account"] == account.pk
    for unsound in ("9" * 19, "abc", "-1", "\u0663", "1_0"):
        assert "account" not in staff.get(ADD, {"account": unsound}).context["adminform"].form.initial


@pytest.mark.parametrize("again", [1, 2])
def test_a_form_that_is_sent_twice_issues_one_key(staff: Client, form: dict[str, Any], again: int) -> None:
    form_id = staff.get(ADD).context["adminform"].form["form_id"].value()
    assert form_id
    form["form_id"] = form_id
    staff.post(ADD, form)
    for _ in range(again):
        response = staff.post(ADD, form)
        assert "This key has been issued already." in response.text
    assert ApiKey.objects.count() == 1


@pytest.mark.parametrize(
    "mistake",
    [{"allowed_networks": "home"}, {"expires_at_0": "2300-01-01", "expires_at_1": "00:00"}],
    ids=["seen by the form", "seen by the model"],
)
def test_a_form_with_a_mistake_can_be_sent_again(
    staff: Client, form: dict[str, Any], mistake: dict[str, str]
) -> None:
    form["form_id"] = staff.get(ADD).context["adminform"].form["form_id"].value()
    assert staff.post(ADD, form | mistake).context["errors"]
    staff.post(ADD, form)
    assert ApiKey.objects.count() == 1


def test_two_openings_of_the_form_issue_two_keys(staff: Client, form: dict[str, Any]) -> None:
    for _ in range(2):
        form["form_id"] = staff.get(ADD).context["adminform"].form["form_id"].value()
        staff.post(ADD, form)
    assert ApiKey.objects.count() == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("account", "999999"),
        ("account", ""),
        ("account", "abc"),
        ("scopes", []),
        ("scopes", ["pets:eat"]),
        ("allowed_networks", "home"),
        ("allowed_networks", "10.0.0.1/8"),
        ("allowed_networks", "10.0.0.0/8 " * 200),
        ("name", "x" * 256),
    ],
)
def test_a_key_with_a_mistake_is_not_issued(
    staff: Client, form: dict[str, Any], field: str, value: Any
) -> None:
    response = staff.post(ADD, form | {field: value})
    assert response.context["adminform"].form.errors.keys() == {field}
    assert not ApiKey.objects.exists()


def test_a_key_that_has_ended_already_is_not_issued(staff: Client, form: dict[str, Any]) -> None:
    response = staff.post(ADD, form | {"expires_at_0": "2020-01-01", "expires_at_1": "00:00"})
    assert "This time has passed." in response.text
    assert not ApiKey.objects.exists()


# --- Looking -------------------------------------------------------------------------------------


def test_digest_and_pepper_are_on_no_page(staff: Client, key: ApiKey) -> None:
    for path in (page_of(key), reverse("admin:accounts_apikey_changelist"), page_of(key, "history")):
        text = staff.get(path).text
        assert key.digest not in text
        assert "digest" not in text.lower()
        assert "pepper" not in text.lower()


def test_the_digest_cannot_be_searched(staff: Client, key: ApiKey) -> None:
    response = staff.get(reverse("admin:accounts_apikey_changelist"), {"q": key.digest})
    assert response.context["cl"].result_count == 0


@pytest.mark.parametrize("length", [key_text.PUBLIC_ID_LENGTH, 10, key_text.ACCOUNT_ID_LENGTH])
def test_keys_are_found_by_their_public_id_or_its_start(
    staff: Client, key: ApiKey, issue: Any, length: int
) -> None:
    issue(of=Account.objects.create(name="Other", plan_id="free"))
    assert found(staff, q=f" {key.public_id[:length]} ") == [key]


@pytest.mark.parametrize("text", ["acme", "Pets", "till", "Till 3"])
def test_a_key_is_found_by_its_name_and_its_accounts(staff: Client, issue: Any, text: str) -> None:
    key, _ = issue(name="Till 3")
    issue(of=Account.objects.create(name="Other", plan_id="free"), name="Desk")
    assert found(staff, q=text) == [key]


@pytest.mark.parametrize("text", ["nobody", "%", "_" * 14])
def test_no_other_text_finds_a_key(staff: Client, key: ApiKey, text: str) -> None:
    assert found(staff, q=text) == []


def test_a_pasted_key_is_looked_for_by_its_public_id_and_never_shown(staff: Client, key: Any) -> None:
    secret = key.text.removeprefix(f"psk_live_{key.public_id}_")
    for pasted in (key.text, f" Bearer {key.text}\t", key.text[:-7]):
        response = staff.get(LIST, {"q": pasted, "state": "active"})
        assert response.status_code == 302
        assert response["Location"] == f"{LIST}?q={key.public_id}&state=active"
        assert secret not in response.text
        assert list(staff.get(response["Location"]).context["cl"].result_list) == [key]


def test_a_list_is_filtered_by_state_mode_plan_and_ban(staff: Client, key: ApiKey, issue: Any) -> None:
    now = timezone.now()
    soon, _ = issue(expires_at=now + timedelta(days=3))
    later, _ = issue(expires_at=now + timedelta(days=20))
    expired, _ = issue(expires_at=now + timedelta(days=1))
    ApiKey.objects.filter(pk=expired.pk).update(
        created_at=now - timedelta(days=2), expires_at=now - timedelta(days=1)
    )
    revoked, _ = issue()
    revoked.revoke(reason="Leaked", by=OPERATOR)
    other, _ = issue(of=Account.objects.create(name="Other", plan_id="free"))
    ApiKey.objects.filter(pk=other.pk).update(mode="test")
    assert found(staff, state="active") == [other, later, soon, key]
    assert found(staff, state="soon", expires="7") == [soon]
    assert found(staff, expires="30") == [later, soon]
    assert found(staff, state="expired") == [expired]
    assert found(staff, state="revoked") == [revoked]
    assert found(staff, mode__exact="test") == [other]
    assert found(staff, plan="free") == [other]
    assert found(staff, banned="now") == []
    assert len(found(staff, state="nothing", expires="9999", plan="\ufffd")) == 6


@pytest.mark.parametrize(
    "query",
    [
        {"digest__startswith": "a"},
        {"digest": "a"},
        {"pepper_number": "1"},
        {"account__plan__code__exact": "free"},
    ],
)
def test_a_list_is_filtered_by_nothing_else(staff: Client, key: ApiKey, query: dict[str, str]) -> None:
    assert staff.get(LIST, query).status_code == 400


def test_no_order_in_the_address_sorts_by_the_digest(staff: Client, key: ApiKey) -> None:
    for column in range(-12, 13):
        with CaptureQueriesContext(connection) as queries:
            staff.get(LIST, {"o": column})
        assert not [query for query in queries if re.search(r"ORDER BY.*digest", query["sql"])]


def test_each_state_has_its_badge_in_words(staff: Client, key: ApiKey, issue: Any) -> None:
    issue(expires_at=timezone.now() + timedelta(days=3))
    revoked, _ = issue()
    revoked.revoke(reason="Leaked", by=OPERATOR)
    text = staff.get(LIST).text
    for badge in ("Active", "Expires soon", "Revoked"):
        assert re.search(rf"rounded-default[^>]*>\s*{badge}\s*</span>", text), badge


def test_last_use_and_todays_requests_are_in_the_list(staff: Client, key: ApiKey) -> None:
    used = timezone.now() - timedelta(minutes=3, seconds=5)
    ApiKey.objects.filter(pk=key.pk).update(last_used_at=used)
    DailyUsage.objects.create(key=key, day=timezone.now().date(), requests=25_000)
    for path in (LIST, page_of(key)):
        text = staff.get(path).text.replace("\xa0", " ")
        assert f'title="{used:%Y-%m-%d %H:%M:%S} UTC">3 minutes ago<' in text
        assert "25,000 of 100,000" in text
        assert "width: 25.0%" in text


def test_a_list_of_keys_asks_no_more_for_more_of_them(staff: Client, key: ApiKey, issue: Any) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            staff.get(LIST)
        return len(asked)

    queries()
    few = queries()
    for number in range(30):
        new, _ = issue(of=Account.objects.create(name=f"Customer {number}", plan_id="free"))
        DailyUsage.objects.create(key=new, day=timezone.now().date(), requests=5)
        KeyStanding.objects.create(key=new)
    assert queries() == few <= 6


def test_a_revoked_key_cannot_be_changed_at_all(staff: Client, key: ApiKey) -> None:
    key.revoke(reason="Leaked", by=OPERATOR)
    before = ApiKey.objects.filter(pk=key.pk).values().get()
    page = staff.get(page_of(key)).text
    assert 'name="name"' not in page
    assert 'name="_save"' not in page
    staff.post(
        page_of(key), {"name": "Alive", "revoked_at_0": "", "revoked_at_1": "", "revoked_reason": ""}
    )
    assert ApiKey.objects.filter(pk=key.pk).values().get() == before


def test_only_the_name_of_a_key_can_be_changed(staff: Client, account: Account, key: ApiKey) -> None:
    before = ApiKey.objects.filter(pk=key.pk).values().get()
    other = type(account).objects.create(name="Other", plan_id="free")
    staff.post(
        page_of(key),
        {
            "name": "Renamed",
            "account": other.pk,
            "scopes": "pets:read",
            "public_id": "x",
            "mode": "test",
            "expires_at_0": "2999-01-01",
            "expires_at_1": "00:00",
            "digest": "0" * 64,
            "allowed_networks": "10.0.0.0/8",
        },
    )
    assert ApiKey.objects.filter(pk=key.pk).values().get() == before | {"name": "Renamed"}


def test_renaming_a_key_never_undoes_its_revoking(
    staff: Client, key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = ApiKey.save

    def revoked_meanwhile(self: ApiKey, **options: Any) -> None:
        ApiKey.objects.filter(pk=self.pk).update(revoked_at=timezone.now(), revoked_reason="Leaked")
        save(self, **options)

    monkeypatch.setattr(ApiKey, "save", revoked_meanwhile)
    staff.post(page_of(key), {"name": "Renamed"})
    key.refresh_from_db()
    assert key.name == "Renamed"
    assert key.revoked_at is not None


def test_the_history_of_a_key_is_shown_and_cannot_be_changed(staff: Client, key: ApiKey) -> None:
    page = staff.get(page_of(key))
    assert "Issued" in page.text
    assert 'name="events-0-reason"' not in page.text
    event = key.events.get()
    forged = {
        "events-TOTAL_FORMS": 1,
        "events-INITIAL_FORMS": 1,
        "events-0-id": event.pk,
        "events-0-key": key.pk,
    }
    staff.post(page_of(key), {"name": "", "events-0-reason": "forged", "events-0-DELETE": "on"} | forged)
    assert key.events.get().reason == ""


def test_a_key_cannot_be_deleted(staff: Client, key: ApiKey) -> None:
    assert staff.post(page_of(key, "delete"), {"post": "yes"}).status_code == 403
    staff.post(
        reverse("admin:accounts_apikey_changelist"),
        {"action": "delete_selected", "_selected_action": key.pk, "post": "yes"},
    )
    assert ApiKey.objects.exists()


# --- Revoking ------------------------------------------------------------------------------------


def test_a_revoked_key_is_refused_on_the_next_request(
    staff: Client, boss: User, key: ApiKey, api: Api
) -> None:
    assert api.get("/pets").status_code == 200
    response = staff.post(page_of(key, "revoke"), {"reason": "Leaked"}, follow=True)
    assert f"Key {key.public_id} is revoked." in response.text
    assert api.get("/pets").status_code == 401
    key.refresh_from_db()
    assert key.revoked_reason == "Leaked"
    event = key.events.latest("id")
    assert (event.action, event.actor_id, event.reason) == ("revoked", boss.pk, "Leaked")


def test_the_question_says_what_stops_working(
    staff: Client, account: Account, key: ApiKey, issue: Any
) -> None:
    today = timezone.now().date()
    DailyUsage.objects.create(key=key, day=today, requests=1_234)
    DailyUsage.objects.create(key=key, day=today - timedelta(days=6), requests=1_000)
    DailyUsage.objects.create(key=key, day=today - timedelta(days=7), requests=50_000)
    ApiKey.objects.filter(pk=key.pk).update(name="Tills", last_used_at=timezone.now() - timedelta(hours=2))
    with CaptureQueriesContext(connection) as queries:
        page = staff.get(page_of(key, "revoke"))
    assert page.context["facts"] == {
        "Name of the key": "Tills",
        "Scopes": "pets:read, pets:write, orders:read, orders:write, events:read",
        "Last use": ANY,
        "Requests today": "1,234",
        "Requests in the last 7 days": "2,234",
        "Other active keys of the account": "None. This is its only one.",
    }
    assert "2\xa0hours ago" in page.context["facts"]["Last use"]
    for word in (account.name, key.public_id, "answered with 401"):
        assert word in page.text
    assert len(queries) <= 8
    issue()
    assert staff.get(page_of(key, "revoke")).context["facts"]["Other active keys of the account"] == 1


def test_what_cannot_be_audited_is_not_done(
    staff: Client, key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise IntegrityError("No entry can be written.")

    monkeypatch.setattr("petstore.backoffice.audit.AuditEntry.objects.create", full)
    assert staff.post(page_of(key, "revoke"), {"reason": "Leaked"}).status_code == 409
    key.refresh_from_db()
    assert key.revoked_at is None


def test_looking_at_the_question_revokes_nothing(staff: Client, key: ApiKey) -> None:
    assert "can't be brought back" in staff.get(page_of(key, "revoke")).text.replace("&#x27;", "'")
    key.refresh_from_db()
    assert key.revoked_at is None


@pytest.mark.parametrize("reason", ["", "   ", "x" * 256])
def test_revoking_needs_a_reason(staff: Client, key: ApiKey, reason: str) -> None:
    response = staff.post(page_of(key, "revoke"), {"reason": reason})
    assert response.context["form"].errors.keys() == {"reason"}
    key.refresh_from_db()
    assert key.revoked_at is None


def test_a_key_is_revoked_once(staff: Client, key: ApiKey) -> None:
    staff.post(page_of(key, "revoke"), {"reason": "First"})
    response = staff.post(page_of(key, "revoke"), {"reason": "Second"})
    assert f"Key {key.public_id} is revoked already." in response.text
    key.refresh_from_db()
    assert key.revoked_reason == "First"


# --- Rotating ------------------------------------------------------------------------------------


def test_rotating_shows_the_new_text_and_gives_the_old_key_an_end(
    staff: Client, key: ApiKey, api: Api
) -> None:
    before = timezone.now()
    page = staff.post(page_of(key, "rotate"))
    (text,) = set(FORM.findall(page.text))
    assert "no-store" in page["Cache-Control"]
    key.refresh_from_db()
    assert public_id_in(text) == key.rotated_to.public_id
    assert key.expires_at is not None
    assert key.expires_at - before > timedelta(hours=23, minutes=59)
    assert api.get("/pets").status_code == 200
    assert Api(text).get("/pets").status_code == 200


@pytest.mark.parametrize(("hours", "shown"), [("0", "has ended"), ("720", "works until")])
def test_the_old_key_works_as_long_as_was_chosen(
    staff: Client, key: ApiKey, api: Api, hours: str, shown: str
) -> None:
    ApiKey.objects.filter(pk=key.pk).update(created_at=timezone.now() - timedelta(days=1))
    before = timezone.now()
    page = staff.post(page_of(key, "rotate"), {"overlap_hours": hours})
    assert shown in page.text
    key.refresh_from_db()
    assert key.expires_at is not None
    assert timedelta(0) <= key.expires_at - before - timedelta(hours=int(hours)) < timedelta(minutes=1)
    assert api.get("/pets").status_code == (401 if hours == "0" else 200)


@pytest.mark.parametrize("hours", ["-1", "721", "abc", "1.5", "9" * 30])
def test_no_other_overlap_is_taken(staff: Client, key: ApiKey, hours: str) -> None:
    page = staff.post(page_of(key, "rotate"), {"overlap_hours": hours})
    assert page.context["form"].errors.keys() == {"overlap_hours"}
    assert ApiKey.objects.count() == 1


def test_a_key_is_rotated_once_even_if_the_button_is_pressed_twice(staff: Client, key: ApiKey) -> None:
    staff.post(page_of(key, "rotate"))
    response = staff.post(page_of(key, "rotate"))
    assert "was rotated already" in response.text
    assert ApiKey.objects.count() == 2


def test_looking_at_the_question_rotates_nothing(staff: Client, key: ApiKey) -> None:
    assert staff.get(page_of(key, "rotate")).status_code == 200
    assert ApiKey.objects.count() == 1


def test_the_buttons_are_those_that_can_do_something(staff: Client, key: ApiKey) -> None:
    text = staff.get(page_of(key)).text
    assert page_of(key, "revoke") in text
    assert page_of(key, "rotate") in text
    staff.post(page_of(key, "revoke"), {"reason": "Leaked"})
    text = staff.get(page_of(key)).text
    assert page_of(key, "revoke") not in text
    assert page_of(key, "rotate") not in text


# --- Who may -------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["revoke", "rotate"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_who_may_only_look_may_not_end_a_key(key: ApiKey, verb: str, method: str) -> None:
    client = clerk_who_may("view_apikey")
    assert getattr(client, method)(page_of(key, verb), {"reason": "Leaked"}).status_code == 403
    text = client.get(page_of(key)).text
    assert page_of(key, verb) not in text
    key.refresh_from_db()
    assert key.state(timezone.now()) == "active"
    assert ApiKey.objects.count() == 1


def test_rotating_needs_the_right_to_issue(key: ApiKey) -> None:
    client = clerk_who_may("view_apikey", "change_apikey")
    assert client.post(page_of(key, "rotate")).status_code == 403
    assert client.post(page_of(key, "revoke"), {"reason": "Leaked"}).status_code == 302


def test_who_may_issue_may_not_look(account: Account, form: dict[str, Any]) -> None:
    client = clerk_who_may("add_apikey", "view_account")
    assert FORM.search(client.post(ADD, form).text)
    assert client.get(page_of(ApiKey.objects.get())).status_code == 403


@pytest.mark.parametrize("verb", ["revoke", "rotate"])
def test_another_site_cannot_end_a_key(boss: User, key: ApiKey, verb: str) -> None:
    client = signed_in(boss, enforce_csrf_checks=True)
    assert client.post(page_of(key, verb), {"reason": "Leaked"}).status_code == 403
    key.refresh_from_db()
    assert key.state(timezone.now()) == "active"
    assert ApiKey.objects.count() == 1


def test_an_end_beyond_100_years_is_refused_in_the_form(staff: Client, form: dict[str, Any]) -> None:
    page = staff.post(ADD, form | {"expires_at_0": "9999-12-31", "expires_at_1": "23:59:59"})
    assert "within 100 years" in page.text
    assert not ApiKey.objects.exists()


# --- Bans


@pytest.fixture
def banned(key: ApiKey) -> ApiKey:
    """The key, banned for five minutes."""
    now = time.time_ns() // 1_000
    ban = {"banned_at": now, "banned_until": now + 300_000_000, "ban_level": 1}
    KeyStanding.objects.create(key=key, **ban)
    return key


def test_a_banned_key_is_seen_in_the_list_and_can_be_picked_out(
    staff: Client, banned: ApiKey, issue: Any
) -> None:
    other, _ = issue()
    page = staff.get(LIST).text
    assert re.search(r">\s*Banned\s*</span>", page)
    assert str(other) in page
    assert "Banned until 20" in staff.get(page_of(banned)).text
    picked = staff.get(LIST, {"banned": "now"}).text
    assert str(banned) in picked
    assert str(other) not in picked


def test_a_ban_is_lifted_with_a_reason_and_the_key_works_at_once(staff: Client, banned: Any) -> None:
    assert Api(banned.text).get("/pets").json()["code"] == "api_key_banned"
    assert page_of(banned, "unban") in staff.get(page_of(banned)).text
    assert "required" in staff.post(page_of(banned, "unban"), {"reason": " "}).text
    staff.post(page_of(banned, "unban"), {"reason": "Their loop is mended."})
    assert Api(banned.text).get("/pets").status_code == 200
    event = banned.events.latest("id")
    assert (event.action, event.actor_name, event.reason) == ("unbanned", "boss", "Their loop is mended.")


def test_a_key_that_is_not_banned_has_no_ban_to_lift(staff: Client, key: ApiKey) -> None:
    assert page_of(key, "unban") not in staff.get(page_of(key)).text
    assert "is not banned" in staff.post(page_of(key, "unban"), {"reason": "Why not."}).text


def test_lifting_a_ban_needs_the_right_to_change_keys(banned: ApiKey) -> None:
    clerk = clerk_who_may("view_apikey")
    assert clerk.post(page_of(banned, "unban"), {"reason": "Why not."}).status_code == 403


def test_key_that_was_pasted_into_a_reason_is_not_kept(staff: Client, key: ApiKey) -> None:
    secret = f"psk_live_{key.public_id}_{'x' * 40}"
    staff.post(page_of(key, "revoke"), {"reason": f"Leaked: {secret}"})
    key.refresh_from_db()
    reasons = [key.revoked_reason, *AuditEntry.objects.values_list("reason", flat=True)]
    assert "Leaked: psk_live_" in key.revoked_reason
    assert not [reason for reason in reasons if "xxxx" in reason]


def test_reason_that_grows_by_what_is_cut_still_fits(staff: Client, key: ApiKey) -> None:
    sent = f"{'x' * 244} password:x"
    assert len(sent) == 255
    assert staff.post(page_of(key, "revoke"), {"reason": sent}, follow=True).status_code == 200
    key.refresh_from_db()
    assert key.revoked_reason == f"{'x' * 244} password:*"
