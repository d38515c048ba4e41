"""The page on which visitors create an account, where SIGN_UP is open (D47)."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts.models import Account, Membership, OutboxEvent
from petstore.audit.models import AuditEntry
from tests.support.staff import PASSWORD, signed_in

PAGE = "/account/sign-up/"
VALUES = {"username": "kim", "password1": PASSWORD, "password2": PASSWORD, "account_name": "Kim's Pets"}


@pytest.fixture
def sign_up(db: None, settings: Any) -> None:
    settings.SIGN_UP = "open"


@pytest.mark.usefixtures("sign_up")
def test_visitor_gets_an_account_on_free_and_lands_on_its_keys() -> None:
    client = Client()
    page = client.get(PAGE).text
    assert "Create the account" in page
    assert "petstore/send-once" in page
    response = client.post(PAGE, VALUES)
    account, user = Account.objects.get(), User.objects.get()
    assert response["Location"] == f"/account/{account.public_id}/keys/"
    assert (account.name, account.plan_id) == ("Kim's Pets", "free")
    assert (user.username, user.is_staff, user.is_superuser, user.email) == ("kim", False, False, "")
    member = Membership.objects.get()
    assert (member.account, member.user, member.role) == (account, user, "owner")
    # Signed in, without another password prompt.
    assert client.get(response["Location"]).status_code == 200
    actions = AuditEntry.objects.order_by("pk").values_list("action", "actor_name", "object_id")
    assert list(actions) == [("added", "kim", str(account.pk)), ("member_joined", "kim", str(account.pk))]
    assert PASSWORD not in repr(list(AuditEntry.objects.values()))


def test_closed_sign_up_shows_the_support_address(db: None, settings: Any) -> None:
    settings.SUPPORT_EMAIL = "help@pets.example"
    for response in (Client().get(PAGE), Client().post(PAGE, VALUES)):
        assert response.status_code == 403
        for text in ("Sign-up is closed", "help@pets.example"):
            assert text in response.text
    assert not User.objects.exists()
    assert not Account.objects.exists()


@pytest.mark.usefixtures("sign_up")
def test_bad_input_creates_nothing(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accounts.portal.forms.NEW_USER_RATES", ("100/m",))
    User.objects.create_user("ann")
    client = Client()
    for fields, text in (
        ({"username": "ANN"}, "already exists"),
        ({"username": "\u0430nn"}, "in a single script"),
        ({"account_name": "\u0410cme Pets"}, "in a single script"),
        ({"username": "ann@example.com"}, "must not contain an @"),
        ({"account_name": "Acme Pets"}, "already exists"),
        ({"account_name": "x" * 101}, "at most 100 characters"),
        ({"password1": "password", "password2": "password"}, "too common"),
    ):
        response = client.post(PAGE, VALUES | fields)
        assert response.status_code == 200
        assert text in response.text
        assert PASSWORD not in response.text
    assert list(User.objects.values_list("username", flat=True)) == ["ann"]
    assert list(Account.objects.all()) == [account]
    assert not OutboxEvent.objects.exists()
    assert "_auth_user_id" not in client.session


@pytest.mark.usefixtures("sign_up", "clock")
@pytest.mark.parametrize("fields", [{"username": "ann"}, {"account_name": "Acme Pets"}, {}])
def test_guessing_names_and_creating_accounts_is_limited(account: Account, fields: dict[str, str]) -> None:
    User.objects.create_user("ann")
    for number in range(10):
        own = {"username": f"kim{number}", "account_name": f"Kim {number}"}
        assert Client().post(PAGE, VALUES | own | fields).status_code in {200, 302}
    response = Client().post(PAGE, VALUES | fields)
    assert response.status_code == 429
    assert int(response["Retry-After"]) > 0
    assert "Too many attempts" in response.text
    assert "already exists" not in response.text
    assert not User.objects.filter(username="kim").exists()


@pytest.mark.usefixtures("sign_up")
def test_sign_up_requires_the_csrf_token_and_cannot_be_framed_or_redirected() -> None:
    client = Client(enforce_csrf_checks=True)
    assert client.post(PAGE, VALUES).status_code == 403
    page = client.get(PAGE)
    assert page["X-Frame-Options"] == "DENY"
    assert "no-store" in page["Cache-Control"]
    response = Client().post(
        f"{PAGE}?next=https://evil.example/", VALUES | {"next": "https://evil.example/"}
    )
    assert response["Location"].startswith("/account/")


@pytest.mark.usefixtures("sign_up")
def test_signed_in_user_is_redirected_to_their_account() -> None:
    client = signed_in(User.objects.create_user("ann"))
    assert client.post(PAGE, VALUES)["Location"] == "/account/"
    assert not Account.objects.exists()
