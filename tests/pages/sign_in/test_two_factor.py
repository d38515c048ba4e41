"""The second factor: sign-in, rate limits, enforcement, set-up and reset."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from petstore.audit.models import AuditEntry, FailedSignIn
from petstore.sign_in import rate_limits
from petstore.sign_in.models import CacheEntry
from tests.support.staff import PASSWORD, enter_password, is_signed_in, member_of, signed_in
from tests.support.two_factor import (
    add_app,
    add_recovery_codes,
    current_code,
    get_recovery_codes,
    get_secret,
    wrong_code,
)

pytestmark = pytest.mark.same_on_both
LOGIN, CODE, SECURITY = "/account/login/", "/account/login/code/", "/account/security/"
SET_UP, OFF = f"{SECURITY}app/", f"{SECURITY}app/off/"
RECOVERY, NEW_CODES = f"{SECURITY}recovery-codes/", f"{SECURITY}recovery-codes/new/"
PAGES = ("/admin/", "/admin/inventory/pet/", "/account/password/", "/admin/autocomplete/", SECURITY, SET_UP)


@pytest.fixture
def app(boss: User) -> str:
    """The secret of the boss's app."""
    return add_app(boss)


@pytest.fixture
def recovery(boss: User, app: str) -> list[str]:
    add_recovery_codes(boss, "aaaaaaaa", "bbbbbbbb")
    return ["aaaaaaaa", "bbbbbbbb"]


def sign_in_with_code(app: str) -> Client:
    """Return the boss's client, verified with the code of the previous step."""
    client = enter_password()
    assert client.post(CODE, {"code": current_code(app, -1)}).status_code == 302
    return client


@pytest.mark.parametrize("setting", ["optional", "required"])
def test_user_with_an_app_enters_a_code_under_any_setting(app: str, settings: Any, setting: str) -> None:
    settings.STAFF_TWO_FACTOR = setting
    client = Client()
    early: Any = client.post(CODE, {"code": current_code(app, -1)})
    assert (early.status_code, early.url) == (302, LOGIN)
    data = {"login": "boss", "password": PASSWORD, "next": "/admin/inventory/pet/"}
    assert client.post(LOGIN, data, follow=True).request["PATH_INFO"] == CODE
    for path in PAGES:
        for method in (client.get, client.post):
            page: Any = method(path, follow=True)
            assert page.request["PATH_INFO"] == CODE, path
    response: Any = client.post(CODE, {"code": current_code(app)})
    assert (response.status_code, response.url) == (302, "/admin/inventory/pet/")
    assert is_signed_in(client)


def test_session_key_changes_when_the_password_is_accepted(app: str) -> None:
    client = Client()
    client.get("/account/login/passkey/")
    before = client.cookies["sessionid"].value
    client.post(LOGIN, {"login": "boss", "password": PASSWORD})
    assert client.cookies["sessionid"].value != before
    assert not Session.objects.filter(session_key=before).exists()


CHANGES: dict[str, Callable[[User], Any]] = {
    "password": lambda boss: User.objects.update(password=make_password("another horse")),
    "inactive": lambda boss: User.objects.update(is_active=False),
    "factor": lambda boss: Authenticator.objects.all().delete(),
    "deleted": lambda boss: boss.delete(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_sign_in_starts_again_after_a_change_of_the_user(boss: User, app: str, change: str) -> None:
    clients = [enter_password(), enter_password()]
    CHANGES[change](boss)
    page = clients[0].get(CODE, follow=True)
    assert page.request["PATH_INFO"] == LOGIN
    assert "Start again." in page.text
    assert cast("Any", clients[1].post(CODE, {"code": current_code(app)})).url == LOGIN
    assert "_auth_user_id" not in clients[1].session


def test_code_is_accepted_once_and_stored_longer_than_it_is_valid(app: str) -> None:
    code = current_code(app)
    assert enter_password().post(CODE, {"code": code}).status_code == 302
    assert CacheEntry.objects.get().expires > timezone.now() + timedelta(seconds=91)
    again = enter_password()
    assert "wrong or has been used before" in again.post(CODE, {"code": code}).text
    assert not is_signed_in(again)


def test_each_recovery_code_is_accepted_once(boss: User, recovery: list[str]) -> None:
    client = enter_password()
    client.post(CODE, {"code": f" {recovery[0].upper()} "})
    assert is_signed_in(client)
    again = enter_password()
    again.post(CODE, {"code": recovery[0]})
    assert not is_signed_in(again)
    assert get_recovery_codes(boss) == recovery[1:]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("daily", "allowed", "wait"), [("50/d", 9, 300), ("2/d", 2, 86_400)])
def test_codes_have_a_limit_in_five_minutes_and_in_a_day(
    app: str, monkeypatch: pytest.MonkeyPatch, daily: str, allowed: int, wait: int
) -> None:
    monkeypatch.setattr(rate_limits, "CODES_PER_NAME", daily)
    client = enter_password()  # Counts as one of the ten attempts in five minutes.
    for _ in range(allowed):
        assert client.post(CODE, {"code": wrong_code(app)}).status_code == 200
    response = client.post(CODE, {"code": current_code(app)})
    assert response.status_code == 429
    assert 1 <= int(response["Retry-After"]) <= wait
    assert "Too many attempts. Try again in " in response.text
    assert not is_signed_in(client)


def test_required_two_factor_limits_users_without_app_to_the_set_up_page(boss: User, settings: Any) -> None:
    settings.STAFF_TWO_FACTOR = "required"
    client = enter_password()
    for path in ("/admin/", "/admin/inventory/pet/", "/admin/autocomplete/"):
        page: Any = client.get(path, follow=True)
        assert page.request["PATH_INFO"] == SET_UP
    assert "Two-factor sign-in is required for all staff." in page.text
    secret = get_secret(page)
    assert client.post(SET_UP, {"code": current_code(secret)}, follow=True).request["PATH_INFO"] == RECOVERY
    assert is_signed_in(client)
    client.post(OFF, {"password": PASSWORD, "code": get_recovery_codes(boss)[0]})
    add_recovery_codes(boss, "aaaaaaaa")  # Alone, they are no second factor.
    assert not is_signed_in(client)
    assert not is_signed_in(enter_password())


def test_set_up_shows_the_secret_and_after_a_code_ten_recovery_codes_once(boss: User) -> None:
    client = enter_password()
    page = client.get(SET_UP)
    assert "no-store" in page["Cache-Control"]
    page = client.post(SET_UP, {"code": current_code(get_secret(page))}, follow=True)
    codes = re.findall(r"<li><code>([0-9]{8})</code></li>", page.text)
    assert len(set(codes)) == 10
    assert set(codes) == set(get_recovery_codes(boss))
    assert "no-store" in page["Cache-Control"]
    again = client.get(RECOVERY).text
    assert "10 of your recovery codes are left" in again
    assert not any(code in again for code in codes)


def test_new_factor_ends_other_sessions_and_its_code_does_not_sign_in(
    boss: User, django_capture_on_commit_callbacks: Any
) -> None:
    thief, victim = enter_password(), enter_password()
    thief_secret, secret = get_secret(thief.get(SET_UP)), get_secret(victim.get(SET_UP))
    with django_capture_on_commit_callbacks(execute=True):
        victim.post(SET_UP, {"code": current_code(secret)})
    thief.post(SET_UP, {"code": current_code(thief_secret)})
    assert (is_signed_in(thief), is_signed_in(victim)) == (False, True)
    [app] = Authenticator.objects.filter(type="totp")
    assert app.data["secret"] == secret
    again = enter_password()
    again.post(CODE, {"code": current_code(secret)})  # The code that confirmed the app.
    assert not is_signed_in(again)


def test_turning_off_requires_password_and_code_and_a_wrong_password_uses_up_no_code(
    boss: User, app: str, recovery: list[str]
) -> None:
    client, code = sign_in_with_code(app), current_code(app)
    assert "errorlist" not in client.get(OFF).text
    for data in ({"password": PASSWORD, "code": "wrong"}, {"password": "wrong", "code": code}):
        assert client.post(OFF, data).status_code == 200
        assert Authenticator.objects.filter(type="totp").exists()
        assert get_recovery_codes(boss) == recovery
    client.post(OFF, {"password": PASSWORD, "code": code})
    assert not Authenticator.objects.exists()
    assert is_signed_in(enter_password())


@pytest.mark.parametrize("by", ["owner", "command"])
def test_two_factor_is_reset_with_a_reason(db: None, by: str) -> None:
    clerk = User.objects.create_user("clerk", password=PASSWORD, is_staff=True)
    add_app(clerk)
    if by == "command":
        call_command("reset_two_factor", "clerk", "--reason", "Lost the phone.", "--json")
    else:
        client, path = signed_in(member_of("Owner")), f"/admin/auth/user/{clerk.pk}/reset-two-factor/"
        assert path in client.get(f"/admin/auth/user/{clerk.pk}/change/").text
        assert client.post(path, {"reason": "Lost the phone."}).status_code == 302
    assert not Authenticator.objects.exists()
    entry = AuditEntry.objects.get(action="two_factor_reset")
    assert (entry.object_text, entry.reason) == ("clerk", "Lost the phone.")
    assert entry.actor_name == "owner" or by == "command"


def test_no_admin_page_contains_app_secrets(boss: User, app: str) -> None:
    client = sign_in_with_code(app)
    for model in ("mfa/authenticator", "account/emailaddress", "usersessions/usersession"):
        assert client.get(f"/admin/{model}/").status_code == 404
    assert app not in client.get(f"/admin/auth/user/{boss.pk}/change/").text


def test_each_step_is_audited_without_secrets(boss: User, django_capture_on_commit_callbacks: Any) -> None:
    client = enter_password()
    secret = get_secret(client.get(SET_UP))
    with django_capture_on_commit_callbacks(execute=True):
        page = client.post(SET_UP, {"code": current_code(secret)}, follow=True)
    codes = re.findall(r"<li><code>(\w+)", page.text)
    client = enter_password()
    client.post(CODE, {"code": wrong_code(secret)})
    client.post(CODE, {"code": current_code(secret, 1)})
    client.post(OFF, {"password": PASSWORD, "code": codes[0]})
    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions == [
        "signed_in", "two_factor_on", "password_accepted", "signed_in", "two_factor_off",
    ]  # fmt: skip
    reasons = AuditEntry.objects.exclude(reason="").values_list("reason", flat=True)
    assert list(reasons) == ["Authenticator app"] * 2
    assert {failure.reason for failure in FailedSignIn.objects.all()} == {"Wrong two-factor code."}
    stored = repr([*AuditEntry.objects.values(), *FailedSignIn.objects.values()])
    assert not any(secret in stored for secret in (secret, PASSWORD, *codes, current_code(secret)))
