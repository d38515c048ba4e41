"""The page that accepts an invitation."""

import html
import re
from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from accounts.models import Account, Invitation, Membership, Role
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR
from tests.support.costs import count_queries
from tests.support.staff import PASSWORD, signed_in
from tests.support.two_factor import add_app

NEW_USER = {"username": "kim", "password1": PASSWORD, "password2": PASSWORD}


@pytest.fixture
def link(account: Account) -> str:
    _, link = Invitation.objects.invite(account, email="kim@example.com", role=Role.OWNER, by=OPERATOR)
    return link[link.index("/account/") :]


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create_user("ann", email="kim@example.com", password=PASSWORD)


def test_new_user_chooses_a_password_and_joins(
    link: str, account: Account, capfd: pytest.CaptureFixture[str]
) -> None:
    assert "petstore/send-once" in Client().get(link).text
    response = Client().post(link, NEW_USER, follow=True)
    assert response.redirect_chain == [(f"/account/{account.public_id}/", 302)]
    user = User.objects.get()
    assert (user.is_staff, user.email, user.check_password(PASSWORD)) == (False, "", True)
    assert account.memberships.get().user == user
    entry = AuditEntry.objects.get(action="member_joined")
    assert (entry.actor_id, entry.actor_name, entry.address) == (user.pk, "kim", "127.0.0.1")
    recorded = repr(list(AuditEntry.objects.values())) + "".join(capfd.readouterr())
    for secret in (link.split("/")[-2], PASSWORD, "kim@example.com"):
        assert secret not in recorded


def test_opening_the_link_does_not_use_it_up_and_one_post_does(link: str, ann: User) -> None:
    for method, status in (("get", 200), ("head", 200), ("options", 405)):
        assert getattr(Client(), method)(link).status_code == status
    assert Client().post(link, NEW_USER).status_code == 302
    for response in (Client().get(link), Client().post(link, NEW_USER), signed_in(ann).post(link)):
        assert (response.status_code, "no longer valid" in response.text) == (410, True)
    # Not ann, who has the invited address: hers is not confirmed, and neither is that of the invitation.
    assert Membership.objects.get().user.username == "kim"


def test_invalid_links_get_the_same_response(link: str, account: Account) -> None:
    tokens = ("x", "x" * 43, link.split("/")[-2].lower())
    bad = [Client().get(f"/account/join/{token}/") for token in tokens]
    invitation = Invitation.objects.get()
    Invitation.objects.update(expires_at=timezone.now(), created_at=timezone.now() - timedelta(days=7))
    bad.append(Client().get(link))
    Invitation.objects.update(expires_at=timezone.now() + timedelta(days=1))
    invitation.withdraw(by=OPERATOR)
    bad.append(Client().get(link))
    assert {(response.status_code, response.text) for response in bad} == {(410, bad[0].text)}
    assert "Acme Pets" not in bad[0].text


def test_existing_user_signs_in_and_accepts_with_a_click(link: str, ann: User) -> None:
    client = Client()
    (address,) = re.findall(r'href="([^"]+)">sign in first', client.get(link).text)
    response = client.post(html.unescape(address), {"login": "ann", "password": PASSWORD})
    assert response["Location"] == link
    assert "You are signed in as <strong>ann</strong>" in client.get(link).text
    assert "You have joined" in client.post(link, NEW_USER, follow=True).text
    ann.refresh_from_db()
    assert (User.objects.count(), ann.check_password(PASSWORD)) == (1, True)
    assert Membership.objects.get().user == ann


def test_link_never_sets_the_password_of_an_existing_user(link: str, ann: User) -> None:
    form = NEW_USER | {"username": "ANN", "password1": "other pass", "password2": "other pass"}
    assert "already exists" in Client().post(link, form).text
    ann.refresh_from_db()
    assert ann.check_password(PASSWORD)
    assert not Membership.objects.exists()


def test_new_user_gets_a_new_session_with_a_recent_password_confirmation(link: str) -> None:
    client = Client()
    session = client.session
    session["planted"] = "x"
    session.save()
    client.cookies["sessionid"] = planted = str(session.session_key)
    client.post(link, NEW_USER)
    assert client.session.session_key != planted
    assert client.get("/account/password/").status_code == 200  # No other password prompt.


def test_page_does_not_reveal_whether_the_invited_address_has_a_user(link: str) -> None:
    """The link may be in the wrong hands."""

    def collect_texts() -> tuple[str, int]:
        client, texts = Client(), []
        queries = count_queries(lambda: texts.append(client.get(link).text))
        return re.sub(r'value="\w{64}"', "", texts[0]), queries

    before = collect_texts()
    user = User.objects.create_user("ann", email="kim@example.com", password=PASSWORD)
    EmailAddress.objects.create(user=user, email="kim@example.com", verified=True, primary=True)
    assert collect_texts() == before


def test_password_without_the_second_factor_does_not_suffice(link: str, ann: User) -> None:
    add_app(ann)
    client = Client()
    client.post("/account/login/", {"login": "ann", "password": PASSWORD})
    assert "signed in as" not in client.get(link).text
    client.post(link)
    assert not Membership.objects.exists()


def test_suspended_account_gets_no_members(link: str, account: Account) -> None:
    account.suspend(reason="Unpaid", by=OPERATOR)
    response = Client().post(link, NEW_USER)
    assert "not possible while Acme Pets is suspended" in response.text
    assert "Unpaid" not in response.text
    assert not User.objects.exists()
