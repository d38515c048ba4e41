"""Signing in with a second factor: a code is asked, taken once, throttled, and can be required of all."""

from __future__ import annotations

import re
from base64 import b32decode, b32encode
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.test import Client
from django_otp.oath import totp
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice

from petstore.backoffice.models import AuditEntry, FailedSignIn
from tests.support.staff import PASSWORD, member_of, signed_in

LOGIN, CODE, PAGE = "/admin/login/", "/admin/two-factor/code/", "/admin/two-factor/"
PAGES = ("/admin/", "/admin/inventory/pet/", "/admin/password_change/", "/admin/autocomplete/", PAGE)


@pytest.fixture
def app(boss: User) -> TOTPDevice:
    """The boss's authenticator app, set up. No test fails where a step of 30 s ends in its midst."""
    device: TOTPDevice = TOTPDevice.objects.create(user=boss, name="Phone", tolerance=3)
    return device


@pytest.fixture
def recovery(app: TOTPDevice) -> list[str]:
    """The boss's recovery codes."""
    device = StaticDevice.objects.create(user=app.user, name="Recovery codes")
    codes = ["aaaaaaaa", "bbbbbbbb"]
    StaticToken.objects.bulk_create(StaticToken(device=device, token=code) for code in codes)
    return codes


def shown_by(app: TOTPDevice, steps: int = 0) -> str:
    """Return the code that the app shows now, or some steps of 30 s later."""
    return f"{totp(app.bin_key, t0=-30 * steps):06}"


def wrong_for(app: TOTPDevice) -> str:
    right = {shown_by(app, steps) for steps in range(-6, 7)}
    return next(code for code in ("000000", "111111", "222222") if code not in right)


def forgive(app: TOTPDevice) -> None:
    """Let the app's codes be taken at once after a wrong one, as they are some seconds later."""
    TOTPDevice.objects.filter(pk=app.pk).update(throttling_failure_count=0)


def gave_password(name: str = "boss") -> Client:
    client = Client(raise_request_exception=False)
    response = client.post(LOGIN, {"username": name, "password": PASSWORD, "next": "/admin/"})
    assert response.status_code == 302
    return client


def is_in(client: Client) -> bool:
    return client.get("/admin/inventory/pet/").status_code == 200


# --- Asking --------------------------------------------------------------------------------------


def test_a_code_of_the_command_lets_in_once_who_lost_their_phone(
    app: TOTPDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("addstatictoken", "boss")
    code = capsys.readouterr().out.strip()
    for let_in in (True, False):
        client = gave_password()
        client.post(CODE, {"code": code})
        assert is_in(client) == let_in


def test_without_a_second_factor_the_password_is_enough(boss: User) -> None:
    assert is_in(gave_password())


@pytest.mark.parametrize("setting", ["optional", "required"])
def test_who_has_an_app_must_give_a_code_whatever_the_setting(
    app: TOTPDevice, settings: Any, setting: str
) -> None:
    settings.STAFF_TWO_FACTOR = setting
    client = gave_password()
    assert not is_in(client)
    response: Any = client.get("/admin/inventory/pet/", follow=True)
    assert response.redirect_chain[-1][0].startswith(CODE)
    response = client.post(CODE, {"code": shown_by(app), "next": "/admin/inventory/pet/"})
    assert (response.status_code, response.url) == (302, "/admin/inventory/pet/")
    assert is_in(client)


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("method", ["get", "post"])
def test_the_password_alone_opens_no_page(app: TOTPDevice, path: str, method: str) -> None:
    response = getattr(gave_password(), method)(path)
    assert response.status_code == 302
    assert response.url.startswith((LOGIN, CODE))


def test_the_code_page_asks_the_password_first(app: TOTPDevice) -> None:
    response: Any = Client().post(CODE, {"code": shown_by(app)})
    assert (response.status_code, response.url) == (302, LOGIN)


def test_a_code_of_somebody_else_is_refused(app: TOTPDevice) -> None:
    rival = User.objects.create_user("rival", password=PASSWORD, is_staff=True)
    TOTPDevice.objects.create(user=rival, name="Phone")
    client = gave_password("rival")
    assert client.post(CODE, {"code": shown_by(app)}).status_code == 200
    assert client.get("/admin/").status_code == 302


def test_who_gave_the_password_only_can_sign_out(app: TOTPDevice) -> None:
    client = gave_password()
    client.post("/admin/logout/")
    assert "_auth_user_id" not in client.session


def test_a_code_starts_a_new_session_id(app: TOTPDevice) -> None:
    client = gave_password()
    before = client.cookies["sessionid"].value
    client.post(CODE, {"code": shown_by(app)})
    assert client.cookies["sessionid"].value != before
    assert not Session.objects.filter(session_key=before).exists()


@pytest.mark.parametrize(
    "next_page", ["//elsewhere.example/", "https://elsewhere.example/", "javascript:alert(1)"]
)
def test_no_next_page_leads_astray(app: TOTPDevice, next_page: str) -> None:
    response: Any = gave_password().post(CODE, {"code": shown_by(app), "next": next_page})
    assert response.url == "/admin/"


@pytest.mark.parametrize("code", ["", "\0", "x" * 100_000, "\uff11" * 6, "1_2345"])
def test_no_code_breaks_the_page(app: TOTPDevice, recovery: list[str], code: str) -> None:
    client = gave_password()
    assert client.post(CODE, {"code": code}).status_code in {200, 400}
    assert not is_in(client)


# --- Once only -----------------------------------------------------------------------------------


def test_a_code_is_taken_once(app: TOTPDevice) -> None:
    code = shown_by(app)
    assert gave_password().post(CODE, {"code": code}).status_code == 302
    again = gave_password()
    response = again.post(CODE, {"code": code})
    assert "wrong or has been used before" in response.text
    assert not is_in(again)


def test_each_recovery_code_lets_in_once(app: TOTPDevice, recovery: list[str]) -> None:
    client = gave_password()
    client.post(CODE, {"code": f" {recovery[0].upper()} "})
    assert is_in(client)
    again = gave_password()
    again.post(CODE, {"code": recovery[0]})
    assert not is_in(again)
    assert [token.token for token in StaticToken.objects.all()] == recovery[1:]


# --- Not too often -------------------------------------------------------------------------------


def test_after_a_wrong_code_the_next_one_must_wait(app: TOTPDevice) -> None:
    client = gave_password()
    client.post(CODE, {"code": wrong_for(app)})
    TOTPDevice.objects.filter(pk=app.pk).update(throttling_failure_count=9)
    response = client.post(CODE, {"code": shown_by(app)})
    assert response.status_code == 429
    assert 200 <= int(response["Retry-After"]) <= 257
    assert "Too many attempts. Try again in 5 minutes." in response.text
    forgive(app)
    assert client.post(CODE, {"code": shown_by(app)}).status_code == 302


def test_wrong_codes_of_the_app_leave_the_recovery_codes_open(app: TOTPDevice, recovery: list[str]) -> None:
    client = gave_password()
    client.post(CODE, {"code": wrong_for(app)})
    TOTPDevice.objects.filter(pk=app.pk).update(throttling_failure_count=20)
    assert client.post(CODE, {"code": recovery[0]}).status_code == 302


def test_ten_attempts_for_a_name_are_looked_at_and_no_more(app: TOTPDevice) -> None:
    client = gave_password()
    for _ in range(9):
        forgive(app)
        assert client.post(CODE, {"code": wrong_for(app)}).status_code == 200
    forgive(app)
    assert client.post(CODE, {"code": shown_by(app)}).status_code == 429
    assert not is_in(client)


# --- Required ------------------------------------------------------------------------------------


def test_where_it_is_required_who_has_no_app_sees_nothing_but_the_page_to_set_one_up(
    boss: User, settings: Any
) -> None:
    settings.STAFF_TWO_FACTOR = "required"
    client = gave_password()
    for path in PAGES[:-1]:
        response: Any = client.get(path, follow=True)
        assert response.redirect_chain[-1][0].startswith(PAGE)
        assert 'href="/admin/inventory/pet/"' not in response.text
    response = client.post(PAGE, {"code": shown_by(TOTPDevice.objects.get())})
    assert response.status_code == 200
    assert is_in(client)


def test_turning_it_off_where_it_is_required_leads_back_to_the_page_to_set_it_up(
    app: TOTPDevice, settings: Any
) -> None:
    settings.STAFF_TWO_FACTOR = "required"
    client = gave_password()
    client.post(CODE, {"code": shown_by(app, -1)})
    client.post(PAGE, {"password": PASSWORD, "code": shown_by(app), "remove": "1"})
    assert not is_in(client)


# --- Setting it up -------------------------------------------------------------------------------


def test_the_page_shows_the_secret_as_a_picture_and_as_text(boss: User) -> None:
    page = signed_in(boss).get(PAGE)
    assert 'src="data:image/svg+xml' in page.text
    device = TOTPDevice.objects.get()
    assert not device.confirmed
    assert f"secret={secret_on(page)}&" in device.config_url
    assert "issuer=Pet%20Store" in device.config_url
    assert "no-store" in page["Cache-Control"]


def test_a_right_code_turns_it_on_and_shows_ten_recovery_codes_once(boss: User) -> None:
    client = signed_in(boss)
    client.get(PAGE)
    page = client.post(PAGE, {"code": shown_by(TOTPDevice.objects.get())})
    codes = re.findall(r"<li><code>([a-z2-7]{8})</code></li>", page.text)
    assert len(set(codes)) == 10
    assert set(codes) == set(StaticToken.objects.values_list("token", flat=True))
    download = re.search(r'href="data:text/plain;charset=utf-8,([^"]+)" download=', page.text)
    assert download
    assert unquote(download[1]).split("\n") == codes
    assert "no-store" in page["Cache-Control"]
    assert is_in(client)
    again = client.get(PAGE).text
    assert "Recovery codes left" in again
    assert not any(code in again for code in codes)
    assert not is_in(gave_password())


def secret_on(page: Any) -> str:
    """Return the secret that the page shows as text."""
    found = re.search(r'class="secret">([A-Z2-7 ]+)<', page.text)
    assert found
    return found[1].replace(" ", "")


def code_of(secret: str) -> str:
    return f"{totp(b32decode(secret)):06}"


def test_a_thief_with_the_password_never_sees_the_secret_that_is_confirmed(boss: User) -> None:
    thief, victim = gave_password(), gave_password()
    seen, own = secret_on(thief.get(PAGE)), secret_on(victim.get(PAGE))
    assert own != seen
    assert "Save your recovery codes" in victim.post(PAGE, {"code": code_of(own)}).text
    [device] = TOTPDevice.objects.all()
    assert (b32encode(device.bin_key).decode(), device.confirmed) == (own, True)
    forgive(device)
    for page in (PAGE, CODE):
        thief.post(page, {"code": code_of(seen)})
        assert not is_in(thief)
    assert is_in(victim)


def test_a_secret_is_confirmed_in_the_session_that_showed_it_only(boss: User) -> None:
    thief, victim = gave_password(), gave_password()
    seen = secret_on(thief.get(PAGE))
    assert "not the expected code" in victim.post(PAGE, {"code": code_of(seen)}).text
    assert not TOTPDevice.objects.filter(confirmed=True).exists()


@pytest.mark.parametrize("leave", [False, True], ids=["without signing out", "after signing out"])
def test_signing_in_again_in_the_same_browser_shows_another_secret(boss: User, *, leave: bool) -> None:
    client = gave_password()
    seen = secret_on(client.get(PAGE))
    if leave:
        client.post("/admin/logout/")
    client.post(LOGIN, {"username": "boss", "password": PASSWORD})
    assert secret_on(client.get(PAGE)) != seen
    assert "not the expected code" in client.post(PAGE, {"code": code_of(seen)}).text


def test_a_reload_and_a_wrong_code_keep_the_secret_that_the_app_has(boss: User) -> None:
    client = gave_password()
    pages = client.get(PAGE), client.get(PAGE), client.post(PAGE, {"code": "no code"})
    assert len({secret_on(page) for page in pages}) == 1


def test_a_secret_that_was_shown_long_ago_is_replaced(boss: User) -> None:
    client = signed_in(boss)
    client.get(PAGE)
    old = TOTPDevice.objects.get()
    TOTPDevice.objects.update(created_at="2026-01-01T00:00:00Z")
    client.get(PAGE)
    assert TOTPDevice.objects.get().key != old.key


# --- Turning it off ------------------------------------------------------------------------------


def verified(app: TOTPDevice) -> Client:
    """Return a client of the boss, who gave the code of the step before."""
    client = gave_password()
    assert client.post(CODE, {"code": shown_by(app, -1)}).status_code == 302
    return client


@pytest.mark.parametrize("lacking", ["password", "code"])
def test_one_of_both_turns_nothing_off(app: TOTPDevice, recovery: list[str], lacking: str) -> None:
    sent = {"password": PASSWORD, "code": shown_by(app), "remove": "1"}
    sent[lacking] = "wrong"
    assert verified(app).post(PAGE, sent).status_code == 200
    assert TOTPDevice.objects.exists()
    assert StaticToken.objects.count() == 2


def test_password_and_code_turn_it_off_and_a_wrong_password_uses_no_code_up(
    app: TOTPDevice, recovery: list[str]
) -> None:
    client, code = verified(app), shown_by(app)
    client.post(PAGE, {"password": "wrong", "code": code, "remove": "1"})
    client.post(PAGE, {"password": PASSWORD, "code": code, "remove": "1"})
    assert not TOTPDevice.objects.exists()
    assert not StaticToken.objects.exists()
    assert is_in(gave_password())


def test_new_recovery_codes_void_the_old_ones(app: TOTPDevice, recovery: list[str]) -> None:
    page = verified(app).post(PAGE, {"password": PASSWORD, "code": shown_by(app), "renew": "1"})
    assert len(re.findall(r"<li><code>", page.text)) == 10
    assert not StaticToken.objects.filter(token__in=recovery).exists()
    assert TOTPDevice.objects.exists()


# --- Resetting a colleague's ---------------------------------------------------------------------


def test_an_owner_resets_a_colleagues_with_a_reason(db: None) -> None:
    clerk = User.objects.create_user("clerk", password=PASSWORD, is_staff=True)
    TOTPDevice.objects.create(user=clerk, name="Phone")
    client, path = signed_in(member_of("Owner")), f"/admin/auth/user/{clerk.pk}/two-factor/"
    assert path in client.get(f"/admin/auth/user/{clerk.pk}/change/").text
    assert "required" in client.post(path, {"reason": " "}).text
    assert TOTPDevice.objects.exists()
    client.post(path, {"reason": "Lost the phone."})
    assert not TOTPDevice.objects.exists()
    entry = AuditEntry.objects.get(action="two_factor_reset")
    assert (entry.actor_name, entry.object_text, entry.reason) == ("owner", "clerk", "Lost the phone.")


def test_secrets_of_apps_are_on_no_page_of_the_admin(app: TOTPDevice) -> None:
    client = verified(app)
    for model in ("otp_totp/totpdevice", "otp_static/staticdevice"):
        assert client.get(f"/admin/{model}/").status_code == 404
    assert app.key not in client.get(f"/admin/auth/user/{app.user_id}/change/").text


# --- On record -----------------------------------------------------------------------------------


def test_each_step_is_on_record_and_no_secret_is(boss: User) -> None:
    client = gave_password()
    client.get(PAGE)
    app = TOTPDevice.objects.get()
    codes = re.findall(r"<li><code>(\w+)", client.post(PAGE, {"code": shown_by(app)}).text)
    client = gave_password()
    client.post(CODE, {"code": wrong_for(app)})
    forgive(app)
    client.post(CODE, {"code": shown_by(app, 1)})
    client.post(PAGE, {"password": PASSWORD, "code": codes[0], "remove": "1"})
    found = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert found == [
        "signed_in", "two_factor_on", "password_accepted", "signed_in", "two_factor_off",
    ]  # fmt: skip
    assert FailedSignIn.objects.get().reason == "Wrong two-factor code."
    kept = repr([*AuditEntry.objects.values(), *FailedSignIn.objects.values()])
    assert not any(secret in kept for secret in (app.key, PASSWORD, *codes, shown_by(app)))
