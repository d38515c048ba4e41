"""No input to the pages of sign-in and security causes a 5xx."""

import json
from itertools import product
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.test import Client
from fido2.utils import websafe_encode

from tests.support.passkeys import ORIGIN, Passkey, get_options
from tests.support.staff import PASSWORD, enter_password
from tests.support.thorough import some
from tests.support.two_factor import add_app

PATHS = (
    "", "login/", "login/code/", "login/passkey/", "login/help/", "inactive/", "password/", "password/set/",
    "password/reset/", "password/reset/sent/", "password/reset/1-abc-def/",
    "password/reset/zzzzzzzzzzzzz-abc-def/", "password/reset/zzzzzzzzzzzzz-set-password/", "email/",
    "email/confirm/a:b:c/", "confirm/", "confirm/code/", "confirm/passkey/", "security/",
    "security/app/", "security/app/off/", "security/recovery-codes/", "security/recovery-codes/new/",
    "security/passkeys/", "security/passkeys/add/", "security/passkeys/1/", "security/passkeys/1/remove/",
    "security/passkeys/99999999999999999999999/", "security/sessions/", "join/x/",
)  # fmt: skip
CLIENT_DATA = {"origin": ORIGIN, "type": "webauthn.get", "challenge": "AA"}
CREDENTIAL = {
    "id": "AA", "rawId": "AA", "type": "public-key", "clientExtensionResults": {"x": "\0\ud800"},
    "response": {
        "clientDataJSON": websafe_encode(json.dumps(CLIENT_DATA).encode()), "signature": "AA",
        "authenticatorData": "A" * 60, "userHandle": websafe_encode(b"9" * 30),
    },
}  # fmt: skip
FORMS: tuple[dict[str, Any], ...] = (
    {},
    {"code": "x" * 50_000, "password": "y" * 50_000, "oldpassword": "z" * 50_000, "login": "l" * 50_000},
    {"code": "1", "password": PASSWORD, "password1": "b", "password2": "c", "email": "a@b", "name": "n"},
    {"email": "a@b.example", "action_send": "", "credential": "[]"},
    {"email": "\u0130@\uff45.example", "action_add": "", "credential": "{}"},
    {"email": "x" * 9999, "action_remove": "", "next": "/\r\nX: y", "credential": json.dumps(CREDENTIAL)},
    {"email": f"{'a' * 60}@{'b' * 60}.example", "action_primary": "", "next": "admin:index"},
)  # fmt: skip
AJAX = {"Accept": "application/json", "X-Requested-With": "XMLHttpRequest"}


def sign_in(kind: str, boss: User) -> Client:
    """Return a client that is anonymous, lacks the code, or is signed in without or with a passkey."""
    if kind == "anonymous":
        return Client(raise_request_exception=False)
    if kind == "no code":
        add_app(boss)
    client = enter_password()
    if kind == "passkey":
        page = "/account/security/passkeys/add/"
        client.post(page, {"credential": Passkey().create(get_options(client.get(page)))})
        assert Authenticator.objects.filter(type="webauthn").exists()
    return client


KINDS = ("anonymous", "no code", "password", "passkey")
METHODS = ("get", "head", "put", "delete", "patch", "options", "trace")
REQUESTS: list[tuple[str, str | int]] = [*product(PATHS, [*METHODS, *range(len(FORMS))])]


@pytest.mark.parametrize("kind", KINDS)
def test_no_request_causes_a_server_error(boss: User, settings: Any, kind: str) -> None:
    """Outside CI, each request is sent by one kind of client."""
    settings.BASE_URL, settings.ORIGIN = f"{ORIGIN}/v1", ORIGIN
    client = sign_in(kind, boss)
    statuses: dict[Any, int] = {}
    first = KINDS.index(kind)
    for path, request in some(REQUESTS[first:] + REQUESTS[:first], len(KINDS)):
        url = f"/account/{path}"
        if isinstance(request, str):
            response = getattr(client, request)(url, headers=AJAX)
        else:
            response = client.post(url, FORMS[request], headers=AJAX if request % 2 else {})
        statuses[path, request] = response.status_code
    assert {request: status for request, status in statuses.items() if status >= 500} == {}
