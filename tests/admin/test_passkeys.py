"""Passkeys sign in and confirm without a password, on the site's own origin only."""

from __future__ import annotations

import json
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from fido2.utils import websafe_encode

from petstore.audit.models import AuditEntry
from petstore.sign_in import forms, views
from tests.support.passkeys import ORIGIN, Passkey, get_options
from tests.support.staff import PASSWORD, enter_password, is_signed_in
from tests.support.two_factor import add_app, get_recovery_codes

LOGIN, PASSKEY_LOGIN = "/account/login/", "/account/login/passkey/"
ADD, CONFIRM = "/account/security/passkeys/add/", "/account/confirm/passkey/"
REJECTED = "belongs to another site, or its response is incomplete"


@pytest.fixture(autouse=True)
def own_host(settings: Any) -> None:
    settings.BASE_URL, settings.ORIGIN = f"{ORIGIN}/v1", ORIGIN
    settings.ALLOWED_HOSTS = ["*"]


def add_passkey(client: Client, passkey: Passkey, **options: str) -> Any:
    credential = passkey.create(get_options(client.get(ADD)), **options)
    return client.post(ADD, {"name": "Laptop", "credential": credential, "passwordless": "on"})


def get_login_options(client: Client) -> dict[str, Any]:
    options: dict[str, Any] = client.get(PASSKEY_LOGIN).json()["request_options"]["publicKey"]
    return options


def sign_in_with(passkey: Passkey, client: Client | None = None, **options: str) -> Client:
    browser = client or Client(raise_request_exception=False)
    credential = passkey.get(get_login_options(browser), **options)
    assert browser.post(PASSKEY_LOGIN, {"credential": credential}).status_code == 302
    return browser


def get_removal_page() -> str:
    return f"/account/security/passkeys/{Authenticator.objects.get(type='webauthn').pk}/remove/"


@pytest.fixture
def passkey(boss: User) -> Passkey:
    """The boss's passkey."""
    passkey = Passkey()
    response = add_passkey(enter_password(), passkey)
    assert (response.status_code, response.url) == (302, "/account/security/recovery-codes/")
    return passkey


def test_passkey_signs_in_without_a_password_or_code(passkey: Passkey, boss: User) -> None:
    add_app(boss)
    client = sign_in_with(passkey)
    assert is_signed_in(client)
    entries = AuditEntry.objects.order_by("id").values_list("action", flat=True)
    assert list(entries) == ["signed_in", "two_factor_on", "signed_in"]


def test_passkey_is_a_second_factor_after_the_password(passkey: Passkey) -> None:
    client = Client()
    page = client.post(LOGIN, {"login": "boss", "password": PASSWORD}, follow=True)
    assert page.request["PATH_INFO"] == "/account/login/code/"
    assert not is_signed_in(client)
    client.post("/account/login/code/", {"credential": passkey.get(get_options(page))})
    assert is_signed_in(client)


@pytest.mark.parametrize(
    "origin",
    ["http://localhost", "http://localhost:8001", "https://localhost:8000", "http://shop.localhost:8000"],
)
def test_passkey_of_another_origin_is_rejected(passkey: Passkey, origin: str) -> None:
    passkey.origin = origin
    client = sign_in_with(passkey)
    assert REJECTED in client.get(LOGIN).text
    assert not is_signed_in(client)


def test_passkey_for_another_relying_party_is_rejected(boss: User, passkey: Passkey) -> None:
    assert not is_signed_in(sign_in_with(passkey, rp_id="example.com"))
    response = add_passkey(sign_in_with(passkey), Passkey(), rp_id="example.com")
    assert response.status_code == 200
    assert Authenticator.objects.filter(user=boss, type="webauthn").count() == 1


@pytest.mark.parametrize("host", ["localhost:8000", "evil.example"])
def test_host_header_does_not_choose_the_relying_party(db: None, host: str) -> None:
    client = Client(headers={"Host": host})
    assert get_login_options(client)["rpId"] == "localhost"


def test_response_to_another_challenge_is_rejected(passkey: Passkey) -> None:
    client = Client()
    old = passkey.get(get_login_options(client))
    get_login_options(client)
    client.post(PASSKEY_LOGIN, {"credential": old})
    assert not is_signed_in(client)


def test_response_is_accepted_once(passkey: Passkey) -> None:
    client = Client()
    credential = passkey.get(get_login_options(client))
    client.post(PASSKEY_LOGIN, {"credential": credential})
    client.post("/account/logout/")
    client.post(PASSKEY_LOGIN, {"credential": credential})
    assert not is_signed_in(client)


def test_passkey_of_one_user_does_not_sign_in_another(passkey: Passkey) -> None:
    rival = User.objects.create_superuser("rival", password=PASSWORD)
    client = sign_in_with(passkey, user_handle=websafe_encode(str(rival.pk).encode()))
    assert not is_signed_in(client)


def test_passkey_of_an_inactive_user_does_not_sign_in(passkey: Passkey) -> None:
    User.objects.update(is_active=False)
    client = sign_in_with(passkey)
    assert not is_signed_in(client)
    assert "_auth_user_id" not in client.session


def test_foreign_passkey_is_neither_renamed_nor_removed(passkey: Passkey) -> None:
    User.objects.create_superuser("rival", password=PASSWORD)
    client, pk = enter_password("rival"), Authenticator.objects.get(type="webauthn").pk
    for page in (f"/account/security/passkeys/{pk}/", f"/account/security/passkeys/{pk}/remove/"):
        assert client.get(page).status_code == client.post(page, {"name": "x"}).status_code == 404
    assert Authenticator.objects.filter(pk=pk).exists()


@pytest.mark.parametrize("lacking", ["", "password", "code"])
def test_removing_a_passkey_without_an_app_requires_password_and_code(
    boss: User, passkey: Passkey, lacking: str
) -> None:
    client, data = sign_in_with(passkey), {"password": PASSWORD, "code": get_recovery_codes(boss)[0]}
    page = get_removal_page()
    assert "takes your password and a recovery code" in client.get(page).text
    assert client.post(page).status_code == 200
    response = client.post(page, {name: value for name, value in data.items() if name != lacking})
    assert Authenticator.objects.exists() == bool(lacking)
    assert response.status_code == (200 if lacking else 302)


def test_passkey_beside_an_app_is_removed_with_a_click(boss: User, passkey: Passkey) -> None:
    add_app(boss)
    client = sign_in_with(passkey)
    assert "Password" not in client.get(get_removal_page()).text
    client.post(get_removal_page())
    assert not Authenticator.objects.filter(type="webauthn").exists()


def test_passkeys_of_a_user_are_limited(passkey: Passkey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "MAX_PASSKEYS", 1)
    assert "You have 1 passkeys. Remove one first." in add_passkey(sign_in_with(passkey), Passkey()).text
    assert Authenticator.objects.filter(type="webauthn").count() == 1


def test_challenges_for_a_client_are_limited(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "CHALLENGES_PER_ADDRESS", "2/m")
    responses = [Client().get(PASSKEY_LOGIN) for _ in range(4)]
    assert [response.status_code for response in responses] == [200, 200, 429, 429]
    assert 1 <= int(responses[-1]["Retry-After"]) <= 60
    assert Session.objects.count() == 2


RESPONSE = {
    "clientDataJSON": websafe_encode(
        json.dumps({"origin": ORIGIN, "type": "x", "challenge": "AA"}).encode()
    )
}
JUNK = [
    "", "x", "0", "null", "[]", "{}", '"x"', '{"response": 1}', '{"response": {}, "rawId": 1}',
    '{"response": {"clientDataJSON": 5}}', json.dumps({"rawId": "A", "response": RESPONSE}),
    *(
        json.dumps({
            "id": "AA", "rawId": "AA", "type": "public-key", "clientExtensionResults": {},
            "response": RESPONSE | {
                "attestationObject": part, "authenticatorData": part, "signature": part, "userHandle": part,
            },
        })
        for part in ("", "AA", "%", 1, None, "o2NmbXQ", "A" * 50_000)
    ),
    "[" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("junk", JUNK)
def test_malformed_response_is_rejected_without_an_error(passkey: Passkey, junk: str) -> None:
    anonymous, client = Client(raise_request_exception=False), sign_in_with(passkey)
    half = Client(raise_request_exception=False)
    half.post(LOGIN, {"login": "boss", "password": PASSWORD})
    get_login_options(anonymous)
    client.get(ADD)
    for browser, page in (
        (anonymous, PASSKEY_LOGIN),
        (half, "/account/login/code/"),
        (client, ADD),
        (client, CONFIRM),
    ):
        assert browser.post(page, {"credential": junk}).status_code in {200, 302, 400}
    assert not is_signed_in(anonymous)
    assert not is_signed_in(half)
