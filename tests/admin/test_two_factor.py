"""The second factor: sign-in, throttling, enforcement, set-up and reset."""

from __future__ import annotations

import re
from base64 import b32decode, b32encode
from html import escape
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
    """The boss's confirmed app. It tolerates a step of 30 s that ends during a test."""
    device: TOTPDevice = TOTPDevice.objects.create(user=boss, name="Phone", tolerance=3)
    return device


@pytest.fixture
def recovery(app: TOTPDevice) -> list[str]:
    device = StaticDevice.objects.create(user=app.user, name="Recovery codes")
    codes = ["aaaaaaaa", "bbbbbbbb"]
    StaticToken.objects.bulk_create(StaticToken(device=device, token=code) for code in codes)
    return codes


def current_code(app: TOTPDevice, steps: int = 0) -> str:
    """Return the app's code now, or some steps of 30 s later."""
    return f"{totp(app.bin_key, t0=-30 * steps):06}"


def wrong_code(app: TOTPDevice) -> str:
    right = {current_code(app, steps) for steps in range(-6, 7)}
    return next(code for code in ("000000", "111111", "222222") if code not in right)


def reset_throttling(app: TOTPDevice) -> None:
    """End the delay after a wrong code."""
    TOTPDevice.objects.filter(pk=app.pk).update(throttling_failure_count=0)


def enter_password(name: str = "boss") -> Client:
    client = Client(raise_request_exception=False)
    response = client.post(LOGIN, {"username": name, "password": PASSWORD, "next": "/admin/"})
    assert response.status_code == 302
    return client


def is_signed_in(client: Client) -> bool:
    return client.get("/admin/inventory/pet/").status_code == 200


# --- Signing in ----------------------------------------------------------------------------------


def test_recovery_code_of_the_command_signs_in_once(
    app: TOTPDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("addstatictoken", "boss")
    code = capsys.readouterr().out.strip()
    for is_accepted in (True, False):
        client = enter_password()
        client.post(CODE, {"code": code})
        assert is_signed_in(client) == is_accepted


def test_password_suffices_without_a_second_factor(boss: User) -> None:
    assert is_signed_in(enter_password())


@pytest.mark.parametrize("setting", ["optional", "required"])
def test_user_with_an_app_must_enter_a_code_under_any_setting(
    app: TOTPDevice, settings: Any, setting: str
) -> None:
    settings.STAFF_TWO_FACTOR = setting
    client = enter_password()
    assert not is_signed_in(client)
    response: Any = client.get("/admin/inventory/pet/", follow=True)
    assert response.redirect_chain[-1][0].startswith(CODE)
    response = client.post(CODE, {"code": current_code(app), "next": "/admin/inventory/pet/"})
    assert (response.status_code, response.url) == (302, "/admin/inventory/pet/")
    assert is_signed_in(client)


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("method", ["get", "post"])
def test_password_without_code_opens_no_page(app: TOTPDevice, path: str, method: str) -> None:
    response = getattr(enter_password(), method)(path)
    assert response.status_code == 302
    assert response.url.startswith((LOGIN, CODE))


def test_code_page_requires_the_password_first(app: TOTPDevice) -> None:
    response: Any = Client().post(CODE, {"code": current_code(app)})
    assert (response.status_code, response.url) == (302, LOGIN)


def test_code_of_another_user_is_rejected(app: TOTPDevice) -> None:
    rival = User.objects.create_user("rival", password=PASSWORD, is_staff=True)
    TOTPDevice.objects.create(user=rival, name="Phone")
    client = enter_password("rival")
    assert client.post(CODE, {"code": current_code(app)}).status_code == 200
    assert client.get("/admin/").status_code == 302


def test_incomplete_sign_in_can_sign_out(app: TOTPDevice) -> None:
    client = enter_password()
    client.post("/admin/logout/")
    assert "_auth_user_id" not in client.session


def test_code_cycles_the_session_key(app: TOTPDevice) -> None:
    client = enter_password()
    before = client.cookies["sessionid"].value
    client.post(CODE, {"code": current_code(app)})
    assert client.cookies["sessionid"].value != before
    assert not Session.objects.filter(session_key=before).exists()


@pytest.mark.parametrize(
    "next_page", ["//elsewhere.example/", "https://elsewhere.example/", "javascript:alert(1)"]
)
def test_next_does_not_redirect_to_other_sites(app: TOTPDevice, next_page: str) -> None:
    response: Any = enter_password().post(CODE, {"code": current_code(app), "next": next_page})
    assert response.url == "/admin/"


@pytest.mark.parametrize("code", ["", "\0", "x" * 100_000, "\uff11" * 6, "1_2345"])
def test_code_page_accepts_any_code_without_error(app: TOTPDevice, recovery: list[str], code: str) -> None:
    client = enter_password()
    assert client.post(CODE, {"code": code}).status_code in {200, 400}
    assert not is_signed_in(client)


# --- Single use ----------------------------------------------------------------------------------


def test_code_is_accepted_once(app: TOTPDevice) -> None:
    code = current_code(app)
    assert enter_password().post(CODE, {"code": code}).status_code == 302
    again = enter_password()
    response = again.post(CODE, {"code": code})
    assert "wrong or has been used before" in response.text
    assert not is_signed_in(again)


def test_each_recovery_code_is_accepted_once(app: TOTPDevice, recovery: list[str]) -> None:
    client = enter_password()
    client.post(CODE, {"code": f" {recovery[0].upper()} "})
    assert is_signed_in(client)
    again = enter_password()
    again.post(CODE, {"code": recovery[0]})
    assert not is_signed_in(again)
    assert [token.token for token in StaticToken.objects.all()] == recovery[1:]


# --- Throttling ----------------------------------------------------------------------------------


def test_wrong_code_delays_the_next_attempt(app: TOTPDevice) -> None:
    client = enter_password()
    client.post(CODE, {"code": wrong_code(app)})
    TOTPDevice.objects.filter(pk=app.pk).update(throttling_failure_count=9)
    response = client.post(CODE, {"code": current_code(app)})
    assert response.status_code == 429
    assert 200 <= int(response["Retry-After"]) <= 257
    assert "Too many attempts. Try again in 5 minutes." in response.text
    reset_throttling(app)
    assert client.post(CODE, {"code": current_code(app)}).status_code == 302


def test_wrong_app_codes_do_not_delay_recovery_codes(app: TOTPDevice, recovery: list[str]) -> None:
    client = enter_password()
    client.post(CODE, {"code": wrong_code(app)})
    TOTPDevice.objects.filter(pk=app.pk).update(throttling_failure_count=20)
    assert client.post(CODE, {"code": recovery[0]}).status_code == 302


def test_eleventh_code_attempt_for_a_name_is_rejected(app: TOTPDevice) -> None:
    client = enter_password()
    for _ in range(9):
        reset_throttling(app)
        assert client.post(CODE, {"code": wrong_code(app)}).status_code == 200
    reset_throttling(app)
    assert client.post(CODE, {"code": current_code(app)}).status_code == 429
    assert not is_signed_in(client)


# --- Required ------------------------------------------------------------------------------------


def test_required_two_factor_limits_users_without_app_to_the_set_up_page(boss: User, settings: Any) -> None:
    settings.STAFF_TWO_FACTOR = "required"
    client = enter_password()
    for path in PAGES[:-1]:
        response: Any = client.get(path, follow=True)
        assert response.redirect_chain[-1][0].startswith(PAGE)
        assert 'href="/admin/inventory/pet/"' not in response.text
    response = client.post(PAGE, {"code": current_code(TOTPDevice.objects.get())})
    assert response.status_code == 200
    assert is_signed_in(client)


def test_turning_off_required_two_factor_leads_to_the_set_up_page(app: TOTPDevice, settings: Any) -> None:
    settings.STAFF_TWO_FACTOR = "required"
    client = enter_password()
    client.post(CODE, {"code": current_code(app, -1)})
    client.post(PAGE, {"password": PASSWORD, "code": current_code(app), "remove": "1"})
    assert not is_signed_in(client)


# --- Setting it up -------------------------------------------------------------------------------


def test_set_up_page_shows_the_secret_as_qr_code_and_text(boss: User) -> None:
    page = signed_in(boss).get(PAGE)
    assert 'src="data:image/svg+xml' in page.text
    device = TOTPDevice.objects.get()
    assert not device.confirmed
    assert f"secret={get_secret(page)}&" in device.config_url
    assert "issuer=Pet%20Store" in device.config_url
    assert f'href="{escape(device.config_url)}">Open the app on this phone' in page.text
    assert "no-store" in page["Cache-Control"]


def test_correct_code_turns_two_factor_on_and_shows_ten_recovery_codes_once(boss: User) -> None:
    client = signed_in(boss)
    client.get(PAGE)
    page = client.post(PAGE, {"code": current_code(TOTPDevice.objects.get())})
    codes = re.findall(r"<li><code>([a-z2-7]{8})</code></li>", page.text)
    assert len(set(codes)) == 10
    assert set(codes) == set(StaticToken.objects.values_list("token", flat=True))
    download = re.search(r'href="data:text/plain;charset=utf-8,([^"]+)" download=', page.text)
    assert download
    assert unquote(download[1]).split("\n") == codes
    assert "no-store" in page["Cache-Control"]
    assert is_signed_in(client)
    again = client.get(PAGE).text
    assert "Recovery codes left" in again
    assert not any(code in again for code in codes)
    assert not is_signed_in(enter_password())


def get_secret(page: Any) -> str:
    match = re.search(r'class="secret">([A-Z2-7 ]+)<', page.text)
    assert match
    return match[1].replace(" ", "")


def get_code(secret: str) -> str:
    return f"{totp(b32decode(secret)):06}"


def test_other_session_never_sees_the_confirmed_secret(boss: User) -> None:
    thief, victim = enter_password(), enter_password()
    thief_secret, victim_secret = get_secret(thief.get(PAGE)), get_secret(victim.get(PAGE))
    assert victim_secret != thief_secret
    assert "Save your recovery codes" in victim.post(PAGE, {"code": get_code(victim_secret)}).text
    [device] = TOTPDevice.objects.all()
    assert (b32encode(device.bin_key).decode(), device.confirmed) == (victim_secret, True)
    reset_throttling(device)
    for page in (PAGE, CODE):
        thief.post(page, {"code": get_code(thief_secret)})
        assert not is_signed_in(thief)
    assert is_signed_in(victim)


def test_secret_is_confirmed_only_in_the_session_that_showed_it(boss: User) -> None:
    thief, victim = enter_password(), enter_password()
    secret = get_secret(thief.get(PAGE))
    assert "This code is wrong" in victim.post(PAGE, {"code": get_code(secret)}).text
    assert not TOTPDevice.objects.filter(confirmed=True).exists()


@pytest.mark.parametrize("leave", [False, True], ids=["without signing out", "after signing out"])
def test_new_sign_in_in_the_same_browser_shows_another_secret(boss: User, *, leave: bool) -> None:
    client = enter_password()
    secret = get_secret(client.get(PAGE))
    if leave:
        client.post("/admin/logout/")
    client.post(LOGIN, {"username": "boss", "password": PASSWORD})
    assert get_secret(client.get(PAGE)) != secret
    assert "This code is wrong" in client.post(PAGE, {"code": get_code(secret)}).text


def test_reload_and_wrong_code_keep_the_secret(boss: User) -> None:
    client = enter_password()
    pages = client.get(PAGE), client.get(PAGE), client.post(PAGE, {"code": "no code"})
    assert len({get_secret(page) for page in pages}) == 1


def test_expired_unconfirmed_secret_is_replaced(boss: User) -> None:
    client = signed_in(boss)
    client.get(PAGE)
    old = TOTPDevice.objects.get()
    TOTPDevice.objects.update(created_at="2026-01-01T00:00:00Z")
    client.get(PAGE)
    assert TOTPDevice.objects.get().key != old.key


# --- Turning it off ------------------------------------------------------------------------------


def sign_in_with_code(app: TOTPDevice) -> Client:
    """Return the boss's client, verified with the code of the previous step."""
    client = enter_password()
    assert client.post(CODE, {"code": current_code(app, -1)}).status_code == 302
    return client


@pytest.mark.parametrize("lacking", ["password", "code"])
def test_turning_off_requires_password_and_code(app: TOTPDevice, recovery: list[str], lacking: str) -> None:
    data = {"password": PASSWORD, "code": current_code(app), "remove": "1"}
    data[lacking] = "wrong"
    assert sign_in_with_code(app).post(PAGE, data).status_code == 200
    assert TOTPDevice.objects.exists()
    assert StaticToken.objects.count() == 2


def test_password_and_code_turn_two_factor_off_and_a_wrong_password_uses_up_no_code(
    app: TOTPDevice, recovery: list[str]
) -> None:
    client, code = sign_in_with_code(app), current_code(app)
    client.post(PAGE, {"password": "wrong", "code": code, "remove": "1"})
    client.post(PAGE, {"password": PASSWORD, "code": code, "remove": "1"})
    assert not TOTPDevice.objects.exists()
    assert not StaticToken.objects.exists()
    assert is_signed_in(enter_password())


def test_new_recovery_codes_replace_the_old_ones(app: TOTPDevice, recovery: list[str]) -> None:
    page = sign_in_with_code(app).post(
        PAGE, {"password": PASSWORD, "code": current_code(app), "renew": "1"}
    )
    assert len(re.findall(r"<li><code>", page.text)) == 10
    assert not StaticToken.objects.filter(token__in=recovery).exists()
    assert TOTPDevice.objects.exists()


# --- Reset by an Owner ---------------------------------------------------------------------------


def test_owner_resets_two_factor_of_another_user_with_a_reason(db: None) -> None:
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


def test_no_admin_page_contains_app_secrets(app: TOTPDevice) -> None:
    client = sign_in_with_code(app)
    for model in ("otp_totp/totpdevice", "otp_static/staticdevice"):
        assert client.get(f"/admin/{model}/").status_code == 404
    assert app.key not in client.get(f"/admin/auth/user/{app.user_id}/change/").text


# --- Audit ---------------------------------------------------------------------------------------


def test_each_step_is_audited_without_secrets(boss: User) -> None:
    client = enter_password()
    client.get(PAGE)
    app = TOTPDevice.objects.get()
    codes = re.findall(r"<li><code>(\w+)", client.post(PAGE, {"code": current_code(app)}).text)
    client = enter_password()
    client.post(CODE, {"code": wrong_code(app)})
    reset_throttling(app)
    client.post(CODE, {"code": current_code(app, 1)})
    client.post(PAGE, {"password": PASSWORD, "code": codes[0], "remove": "1"})
    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions == [
        "signed_in", "two_factor_on", "password_accepted", "signed_in", "two_factor_off",
    ]  # fmt: skip
    assert FailedSignIn.objects.get().reason == "Wrong two-factor code."
    stored = repr([*AuditEntry.objects.values(), *FailedSignIn.objects.values()])
    assert not any(secret in stored for secret in (app.key, PASSWORD, *codes, current_code(app)))
