"""One-time password links: use, expiry and invalidation."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode

from accounts.models import Account, Membership, Role
from petstore.api.link_header import get_page_url
from petstore.audit.models import AuditEntry
from tests.support.staff import member_of, signed_in, superuser

PASSWORD = "a pass phrase that they chose"
ADD = "/admin/auth/user/add/"


def extract_link(page: str) -> str:
    """Return the password link on a page, without scheme and host."""
    [link] = re.findall(r'<code id="link"[^>]*>([^<]+)</code>', unescape(page))
    assert link.startswith(get_page_url("admin/new-password/"))
    return str(link).removeprefix(get_page_url("")[:-1])


def reset_password(owner: Client, user: User) -> str:
    return extract_link(owner.post(f"/admin/auth/user/{user.pk}/password/", {"reason": "Forgot it"}).text)


def choose_password(link: str, password: str = PASSWORD, client: Client | None = None) -> Client:
    """Open a link and submit its form, if there is one. Return the client."""
    browser = client or Client()
    page = browser.get(link, follow=True)
    data = {"new_password1": password, "new_password2": password}
    browser.post(page.request["PATH_INFO"], data)
    return browser


def may_sign_in(user: User, password: str = PASSWORD) -> bool:
    data = {"login": user.username, "password": password}
    return Client().post("/account/login/", data).status_code == 302


@pytest.fixture
def owner(db: None) -> Client:
    return signed_in(member_of("Owner"))


@pytest.fixture
def clerk(db: None) -> User:
    user = member_of("Viewer", name="clerk")
    user.set_password("the old pass phrase")
    user.save()
    return user


def test_new_user_chooses_a_password_and_has_a_role(owner: Client) -> None:
    assert "password" not in unescape(owner.get(ADD).text).split('id="user_form"')[1].split("</form>")[0]
    page = owner.post(ADD, {"username": "kim", "groups": Group.objects.get(name="Stock").pk}).text
    kim = User.objects.get(username="kim")
    assert not kim.has_usable_password()
    colleague = choose_password(extract_link(page))
    colleague.post("/account/login/", {"login": "kim", "password": PASSWORD})
    assert colleague.get("/admin/inventory/pet/add/").status_code == 200
    assert colleague.get("/admin/accounts/account/").status_code == 403


def test_used_link_replaces_the_password_and_ends_earlier_sessions(owner: Client, clerk: User) -> None:
    link = reset_password(owner, clerk)
    assert may_sign_in(clerk, "the old pass phrase")
    thief = signed_in(clerk)
    link = reset_password(owner, clerk)  # The sign-ins have invalidated the first.
    choose_password(link)
    assert thief.get("/admin/").status_code == 302
    assert may_sign_in(clerk)
    assert not may_sign_in(clerk, "the old pass phrase")


def get_issuer() -> User:
    return User.objects.get(username="owner")


def change_issuer_password(link: str, clerk: User) -> None:
    """An attacker in the Owner's session may have issued the link."""
    issuer = get_issuer()
    issuer.set_password("a new pass phrase")
    issuer.save()


def join_an_account(link: str, clerk: User) -> None:
    """The issuer may be allowed to manage staff, but not the accounts of customers."""
    account = Account.objects.create(name="Acme Pets", plan_id="free")
    Membership.objects.create(account=account, user=clerk, role=Role.OWNER)


def get_permission() -> Permission:
    return Permission.objects.get(codename="change_user")


INVALIDATIONS: dict[str, Callable[[str, User], Any]] = {
    "used": lambda link, clerk: choose_password(link, "another pass phrase"),
    "signed in": lambda link, clerk: may_sign_in(clerk, "the old pass phrase"),
    "left": lambda link, clerk: User.objects.filter(pk=clerk.pk).update(is_active=False),
    "promoted": lambda link, clerk: User.objects.filter(pk=clerk.pk).update(is_superuser=True),
    "another role": lambda link, clerk: clerk.groups.set(Group.objects.filter(name="Owner")),
    "a permission": lambda link, clerk: clerk.user_permissions.add(get_permission()),
    "a permission of the role": lambda link, clerk: clerk.groups.get().permissions.add(get_permission()),
    "joined an account": join_an_account,
    "issuer demoted": lambda link, clerk: get_issuer().groups.set(Group.objects.filter(name="Support")),
    "issuer left": lambda link, clerk: User.objects.filter(username="owner").update(is_active=False),
    "issuer deleted": lambda link, clerk: get_issuer().delete(),
    "issuer's password changed": change_issuer_password,
}


@pytest.mark.parametrize("invalidate", INVALIDATIONS.values(), ids=INVALIDATIONS)
@pytest.mark.parametrize("is_open", [False, True], ids=["before it is opened", "after it is opened"])
def test_invalid_link_sets_no_password(
    owner: Client, clerk: User, invalidate: Callable[[str, User], Any], *, is_open: bool
) -> None:
    link, browser = reset_password(owner, clerk), Client()
    page = browser.get(link, follow=True).request["PATH_INFO"] if is_open else link
    invalidate(link, clerk)
    before = User.objects.get(pk=clerk.pk).password
    for response in (
        browser.get(page),
        browser.post(page, {"new_password1": PASSWORD, "new_password2": PASSWORD}),
    ):
        assert response.status_code == 410
        assert "This link is no longer valid" in response.text
    assert User.objects.get(pk=clerk.pk).password == before


def test_link_with_another_user_issuer_or_token_is_invalid(owner: Client, clerk: User) -> None:
    boss = superuser()
    *prefix, uid, token, suffix = reset_password(owner, clerk).split("/")
    assert urlsafe_base64_decode(uid).decode().startswith(f"{clerk.pk}.")
    other = reset_password(owner, member_of("Viewer", name="other")).split("/")[-3]
    issuers = (f".{boss.pk}", f".{clerk.pk}", "", ".", ".0", f".{10**30}", ".x")
    forged = [urlsafe_base64_encode(f"{clerk.pk}{issuer}".encode()) for issuer in issuers]
    for parts in ((other, token), (uid, f"{token[:-1]}!"), *((uid, token) for uid in forged)):
        assert Client().get("/".join([*prefix, *parts, suffix]), follow=True).status_code in {400, 410}


def test_link_survives_changes_that_grant_no_permissions(owner: Client, clerk: User) -> None:
    link = reset_password(owner, clerk)
    User.objects.filter(pk=clerk.pk).update(first_name="Kim")
    owner.post("/account/logout/")
    choose_password(link)
    assert may_sign_in(clerk)


def test_link_expires_after_a_day(owner: Client, clerk: User, settings: Any) -> None:
    assert settings.PASSWORD_RESET_TIMEOUT == 24 * 60 * 60
    link = reset_password(owner, clerk)
    settings.PASSWORD_RESET_TIMEOUT = -1  # Expired.
    assert Client().get(link).status_code == 410


def test_link_opened_twice_sets_one_password(owner: Client, clerk: User) -> None:
    link, browsers = reset_password(owner, clerk), [Client(), Client()]
    pages = [browser.get(link, follow=True).request["PATH_INFO"] for browser in browsers]
    data = {"new_password1": PASSWORD, "new_password2": PASSWORD}
    responses = [browser.post(page, data) for browser, page in zip(browsers, pages, strict=True)]
    assert [response.status_code for response in responses] == [302, 410]


def test_weak_password_is_rejected_and_the_link_stays_valid(owner: Client, clerk: User) -> None:
    link = reset_password(owner, clerk)
    browser = choose_password(link, "12345678")
    assert not may_sign_in(clerk, "12345678")
    choose_password(link, client=browser)
    assert may_sign_in(clerk)


def test_no_link_is_created_for_the_current_or_an_inactive_user(clerk: User) -> None:
    boss = member_of("Owner")
    client = signed_in(boss)
    assert client.post(f"/admin/auth/user/{boss.pk}/password/", {"reason": "x"}).status_code == 403
    assert "Reset password" not in client.get(f"/admin/auth/user/{boss.pk}/change/").text
    User.objects.filter(pk=clerk.pk).update(is_active=False)
    page = client.post(f"/admin/auth/user/{clerk.pk}/password/", {"reason": "x"}, follow=True).text
    assert "This user is not allowed to sign in" in page
    assert "new-password" not in page


def test_audit_trail_records_issuer_and_use_of_a_link_without_the_link(
    owner: Client, clerk: User, capfd: pytest.CaptureFixture[str]
) -> None:
    link = reset_password(owner, clerk)
    issued = AuditEntry.objects.get(action="issued", model="auth.user")
    assert (issued.actor_name, issued.object_text, issued.reason) == ("owner", "clerk", "Forgot it")
    choose_password(link)
    choose_password(link)  # Rejections are logged, too.
    changed = AuditEntry.objects.filter(action="changed").latest("pk")
    assert (changed.actor_name, changed.object_text) == ("clerk", "clerk")
    token = link.split("/")[-2]
    assert token not in repr(list(AuditEntry.objects.values()))
    assert PASSWORD not in repr(list(AuditEntry.objects.values()))
    assert token not in capfd.readouterr().err


def test_two_factor_set_up_follows_the_password_choice(owner: Client, clerk: User, settings: Any) -> None:
    link = reset_password(owner, clerk)
    settings.STAFF_TWO_FACTOR = "required"
    colleague = choose_password(link)
    assert colleague.get("/admin/")["Location"].startswith("/admin/login/")
    colleague.post("/account/login/", {"login": "clerk", "password": PASSWORD})
    page = colleague.get("/admin/", follow=True)
    assert page.request["PATH_INFO"] == "/account/security/app/"
    assert "Two-factor sign-in is required" in page.text


def test_pages_with_a_link_are_not_cached_and_send_no_referrer(owner: Client, clerk: User) -> None:
    link = reset_password(owner, clerk)
    page = owner.post(f"/admin/auth/user/{clerk.pk}/password/", {"reason": "x"})
    for response in (page, Client().get(link), Client().get(link, follow=True)):
        assert "no-store" in response["Cache-Control"]
        assert response["Referrer-Policy"] in {"same-origin", "no-referrer"}
