"""Passkeys sign in and confirm without a password, on the site's own origin only."""

import json
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.test import Client
from fido2.cose import CoseKey
from fido2.utils import websafe_encode

from petstore.audit.models import AuditEntry
from petstore.backoffice.message_storage import MAX_MESSAGES
from petstore.sign_in import forms, receivers, views
from petstore.sign_in.second_factors import describe
from tests.support.passkeys import ORIGIN, Passkey, get_options
from tests.support.staff import PASSWORD, enter_password, is_signed_in
from tests.support.two_factor import add_app, get_recovery_codes

pytestmark = pytest.mark.same_on_both
LOGIN, PASSKEY_LOGIN = "/account/login/", "/account/login/passkey/"
ADD, CONFIRM = "/account/security/passkeys/add/", "/account/confirm/passkey/"
SUBDOMAIN = "http://shop.localhost:8000"
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
    entries = AuditEntry.objects.order_by("id")
    assert [entry.action for entry in entries] == ["signed_in", "two_factor_on", "signed_in"]
    assert entries[1].reason == "Passkey: Laptop"
    assert describe(Authenticator(type="webauthn", data={"name": "Old passkey"})) == "Old passkey"


def test_passkey_is_a_second_factor_after_the_password(passkey: Passkey) -> None:
    client = Client()
    page = client.post(LOGIN, {"login": "boss", "password": PASSWORD}, follow=True)
    assert page.request["PATH_INFO"] == "/account/login/code/"
    assert not is_signed_in(client)
    client.post("/account/login/code/", {"credential": passkey.get(get_options(page))})
    assert is_signed_in(client)


def test_passkey_of_another_origin_is_rejected(passkey: Passkey) -> None:
    for host in ("localhost:8000", "evil.example"):  # The Host header does not choose the relying party.
        assert get_login_options(Client(headers={"Host": host}))["rpId"] == "localhost"
    origins = "http://localhost", "http://localhost:8001", "https://localhost:8000", f"{ORIGIN}1", SUBDOMAIN
    for origin in origins:
        passkey.origin = origin
        client = sign_in_with(passkey)
        assert REJECTED in client.get(LOGIN).text
        assert not is_signed_in(client)


def test_passkey_for_another_relying_party_is_rejected(boss: User, passkey: Passkey) -> None:
    assert not is_signed_in(sign_in_with(passkey, rp_id="example.com"))
    response = add_passkey(sign_in_with(passkey), Passkey(), rp_id="example.com")
    assert response.status_code == 200
    assert Authenticator.objects.filter(user=boss, type="webauthn").count() == 1


def test_response_signs_in_its_active_user_once_and_for_its_challenge(passkey: Passkey) -> None:
    client = Client()
    old = passkey.get(get_login_options(client))
    credential = passkey.get(get_login_options(client))
    client.post(PASSKEY_LOGIN, {"credential": credential})
    assert is_signed_in(client)
    client.post("/account/logout/")
    for used in (old, credential):
        client.post(PASSKEY_LOGIN, {"credential": used})
        assert not is_signed_in(client)
    rival = User.objects.create_superuser("rival", password=PASSWORD)
    assert not is_signed_in(sign_in_with(passkey, user_handle=websafe_encode(str(rival.pk).encode())))
    User.objects.update(is_active=False)
    assert "_auth_user_id" not in sign_in_with(passkey).session


def test_removing_a_passkey_without_an_app_requires_password_and_code(boss: User, passkey: Passkey) -> None:
    client, page = sign_in_with(passkey), get_removal_page()
    data = {"password": PASSWORD, "code": get_recovery_codes(boss)[0]}
    assert "takes your password and a recovery code" in client.get(page).text
    assert client.delete(page, data).status_code == 405  # Django's view would not check the form.
    incomplete: list[dict[str, str]] = [{}, data | {"password": ""}, data | {"code": ""}]
    for sent in incomplete:
        assert client.post(page, sent).status_code == 200
        assert Authenticator.objects.filter(type="webauthn").exists()
    User.objects.create_superuser("rival", password=PASSWORD)
    rival = enter_password("rival")
    for foreign in (page, page.removesuffix("remove/")):
        assert rival.get(foreign).status_code == rival.post(foreign, data).status_code == 404
    assert client.post(page, data).status_code == 302
    assert not Authenticator.objects.exists()


def test_passkey_of_a_customer_does_not_sign_in_after_they_are_made_staff(boss: User) -> None:
    """A thief may have added it, and staff start with the password that they choose with a link."""
    User.objects.create_user("kim", password=PASSWORD)
    passkey = Passkey()
    add_passkey(enter_password("kim"), passkey)
    form = {"username": "kim", "groups": Group.objects.get(name="Viewer").pk, "reason": "Joins us"}
    assert enter_password().post("/admin/auth/user/make-staff/", form).status_code == 200
    client = Client()
    client.post(PASSKEY_LOGIN, {"credential": passkey.get(get_login_options(client))})
    assert client.get("/admin/").status_code == 302
    assert AuditEntry.objects.filter(action="two_factor_reset", object_text="kim").exists()


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


@pytest.mark.usefixtures("clock")
def test_challenges_for_a_client_are_limited(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "CHALLENGES_PER_ADDRESS", "2/m")
    responses = [Client().get(PASSKEY_LOGIN) for _ in range(4)]
    assert [response.status_code for response in responses] == [200, 200, 429, 429]
    assert 1 <= int(responses[-1]["Retry-After"]) <= 60
    assert Session.objects.count() == 2


def test_confirming_again_and_again_does_not_grow_the_session(
    passkey: Passkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receivers, "MAX_AUTHENTICATION_RECORDS", 2)
    client = sign_in_with(passkey)
    for _ in range(4):
        credential = passkey.get(get_options(client.get(CONFIRM)))
        assert client.post(CONFIRM, {"credential": credential}).status_code == 302
    records = client.session["account_authentication_methods"]
    assert [record.get("reauthenticated") for record in records] == [True, True]
    assert client.get(ADD).status_code == 200


def test_unread_messages_are_limited(db: None) -> None:
    """Clients may repeat requests without showing their messages, and repeat an old cookie."""
    client = Client()
    for _ in range(MAX_MESSAGES + 3):
        client.post(PASSKEY_LOGIN, {"credential": "{}"})
    assert client.get(LOGIN).text.count(REJECTED) == MAX_MESSAGES


RESPONSE = {
    "clientDataJSON": websafe_encode(
        json.dumps({"origin": ORIGIN, "type": "x", "challenge": "AA"}).encode()
    )
}
ARRAYS = b"\x81" * 2_000  # One within another.
NESTED = [websafe_encode(start + ARRAYS) for start in (b"", b"\0" * 32 + b"\x80" + b"\0" * 4)]
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
        for part in ("", "AA", "%", 1, None, "o2NmbXQ", "A" * 50_000, *NESTED)
    ),
    "[" * 5000,
]  # fmt: skip


def test_malformed_response_is_rejected_without_an_error(passkey: Passkey) -> None:
    anonymous, client = Client(raise_request_exception=False), sign_in_with(passkey)
    half = Client(raise_request_exception=False)
    half.post(LOGIN, {"login": "boss", "password": PASSWORD})
    pages = ((anonymous, PASSKEY_LOGIN), (half, "/account/login/code/"), (client, ADD), (client, CONFIRM))
    for junk in JUNK:
        get_login_options(anonymous)
        client.get(ADD)
        for browser, page in pages:
            assert browser.post(page, {"credential": junk}).status_code in {200, 302, 400}, junk
    assert not is_signed_in(anonymous)
    assert not is_signed_in(half)


def test_passkey_without_a_key_is_not_added(boss: User) -> None:
    passkey, client = Passkey(), enter_password()
    passkey.public_key = None
    assert "incomplete" in add_passkey(client, passkey).text
    assert not Authenticator.objects.filter(user=boss).exists()


def test_passkey_with_an_unknown_algorithm_does_not_sign_in(boss: User) -> None:
    passkey = Passkey()
    passkey.public_key = CoseKey({1: 2, 3: -999})
    add_passkey(enter_password(), passkey)
    assert not is_signed_in(sign_in_with(passkey))
