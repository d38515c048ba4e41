"""One-time password links: use, expiry and invalidation."""

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from allauth.account.utils import user_pk_to_url_str
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from accounts.models import Account, Membership, Role
from petstore.api.link_header import get_page_url
from petstore.audit.models import AuditEntry
from tests.support.costs import recorded_statements
from tests.support.skips import NEEDS_POSTGRESQL
from tests.support.staff import member_of, signed_in, superuser

pytestmark = pytest.mark.same_on_both
PASSWORD = "a pass phrase that they chose"
ADD = "/admin/auth/user/add/"


def extract_link(page: str) -> str:
    """Return the password link on a page, without scheme and host."""
    [link] = re.findall(r'<code id="link"[^>]*>([^<]+)</code>', unescape(page))
    assert link.startswith(get_page_url("account/password/reset/"))
    return str(link).removeprefix(get_page_url("")[:-1])


def reset_password(owner: Client, user: User) -> str:
    return extract_link(owner.post(f"/admin/auth/user/{user.pk}/password/", {"reason": "Forgot it"}).text)


def choose_password(link: str, password: str = PASSWORD, client: Client | None = None) -> Client:
    """Open a link and submit its form, if there is one. Return the client."""
    browser = client or Client()
    page = browser.get(link, follow=True)
    data = {"password1": password, "password2": password}
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
    page = owner.post(ADD, {"username": "kim", "groups": Group.objects.get(name="Stock").pk}).text
    assert not User.objects.get(username="kim").has_usable_password()
    colleague = choose_password(extract_link(page))
    colleague.post("/account/login/", {"login": "kim", "password": PASSWORD})
    assert colleague.get("/admin/inventory/pet/add/").status_code == 200
    assert colleague.get("/admin/accounts/account/").status_code == 403


def test_used_link_replaces_the_password_and_ends_earlier_sessions(owner: Client, clerk: User) -> None:
    thief = signed_in(clerk)
    link = reset_password(owner, clerk)
    User.objects.filter(pk=clerk.pk).update(first_name="Kim")
    owner.post("/account/logout/")  # Neither grants a permission, so the link remains valid.
    browser = choose_password(link, "12345678")
    assert not may_sign_in(clerk, "12345678")
    choose_password(link, client=browser)
    assert thief.get("/admin/").status_code == 302
    assert may_sign_in(clerk)
    assert not may_sign_in(clerk, "the old pass phrase")


def change_issuer_password(issuer: User, clerk: User, right: Permission) -> None:
    """An attacker in the Owner's session may have issued the link."""
    issuer.set_password("a new pass phrase")
    issuer.save()


def join_an_account(issuer: User, clerk: User, right: Permission) -> None:
    """The issuer may be allowed to manage staff, but not the accounts of customers."""
    account = Account.objects.create(name="Acme Pets", plan_id="free")
    Membership.objects.create(account=account, user=clerk, role=Role.OWNER)


INVALIDATIONS: dict[str, Callable[[User, User, Permission], Any]] = {
    "signed in": lambda issuer, clerk, right: may_sign_in(clerk, "the old pass phrase"),
    "left": lambda issuer, clerk, right: User.objects.filter(pk=clerk.pk).update(is_active=False),
    "promoted": lambda issuer, clerk, right: User.objects.filter(pk=clerk.pk).update(is_superuser=True),
    "another role": lambda issuer, clerk, right: clerk.groups.set(Group.objects.filter(name="Owner")),
    "a permission": lambda issuer, clerk, right: clerk.user_permissions.add(right),
    "a permission of the role": lambda issuer, clerk, right: clerk.groups.get().permissions.add(right),
    "joined an account": join_an_account,
    "issuer demoted": lambda issuer, clerk, right: issuer.groups.set(Group.objects.filter(name="Support")),
    "issuer left": lambda issuer, clerk, right: User.objects.filter(pk=issuer.pk).update(is_active=False),
    "issuer deleted": lambda issuer, clerk, right: issuer.delete(),
    "issuer's password changed": change_issuer_password,
}


@pytest.mark.parametrize("invalidate", INVALIDATIONS.values(), ids=INVALIDATIONS)
def test_invalid_link_sets_no_password(
    owner: Client, clerk: User, invalidate: Callable[[User, User, Permission], Any]
) -> None:
    link, browser, late = reset_password(owner, clerk), Client(), Client()
    page = browser.get(link, follow=True).request["PATH_INFO"]
    right = Permission.objects.get(codename="change_user")
    invalidate(User.objects.get(username="owner"), clerk, right)
    before = User.objects.get(pk=clerk.pk).password
    sent = {"password1": PASSWORD, "password2": PASSWORD}
    for response in (late.get(link), late.post(link, sent), browser.get(page), browser.post(page, sent)):
        assert (response.status_code, "This link is no longer valid" in response.text) == (410, True)
    assert User.objects.get(pk=clerk.pk).password == before


def test_link_signs_out_no_one_who_opens_it(owner: Client, clerk: User) -> None:
    """Anyone may have got a link for themselves, and other sites can lead a browser to it."""
    link, colleague = reset_password(owner, clerk), signed_in(member_of("Viewer", name="ann"))
    page = colleague.get(link, follow=True)
    assert "Choose a password" in page.text
    assert colleague.get("/admin/").status_code == 200
    choose_password(link, client=colleague)
    assert may_sign_in(clerk, PASSWORD)
    assert colleague.get("/admin/").status_code == 200


@NEEDS_POSTGRESQL
def test_only_a_valid_link_locks_its_user(owner: Client, clerk: User) -> None:
    link = reset_password(owner, clerk)
    for path, locks in ((f"{link[:-2]}/", 0), (link, 1)):
        with recorded_statements() as statements:
            Client().get(path)
        assert len([sql for sql, _ in statements if "FOR" in sql.split()]) == locks


def test_link_with_another_user_issuer_or_token_is_invalid(owner: Client, clerk: User) -> None:
    boss = superuser()
    uid, issuer, *token = reset_password(owner, clerk).split("/")[-2].split("-")
    assert uid == user_pk_to_url_str(clerk)
    other = user_pk_to_url_str(member_of("Viewer", name="other"))
    issuers = (boss.pk, clerk.pk, 0, 10**30, "x")
    forged = [(other, issuer, *token), (uid, *token), (uid, issuer, *token, "0"), (uid, issuer, token[0])]
    for parts in (*forged, *((uid, issuer, *token) for issuer in issuers)):
        link = f"/account/password/reset/{'-'.join(map(str, parts))}/"
        assert Client().get(link, follow=True).status_code == 410


def test_link_expires_after_a_day(owner: Client, clerk: User, settings: Any) -> None:
    assert settings.PASSWORD_RESET_TIMEOUT == 24 * 60 * 60
    link = reset_password(owner, clerk)
    settings.PASSWORD_RESET_TIMEOUT = -1  # Expired.
    assert Client().get(link).status_code == 410


def test_no_link_is_created_for_the_current_or_an_inactive_user(clerk: User) -> None:
    boss = member_of("Owner")
    client = signed_in(boss)
    assert "Reset password" not in client.get(f"/admin/auth/user/{boss.pk}/change/").text
    User.objects.filter(pk=clerk.pk).update(is_active=False)
    page = client.post(f"/admin/auth/user/{clerk.pk}/password/", {"reason": "x"}, follow=True).text
    assert "This user is not allowed to sign in" in page
    assert "password/reset/" not in page


def test_audit_trail_records_issuer_and_use_of_a_link_without_the_link(
    owner: Client, clerk: User, capfd: pytest.CaptureFixture[str]
) -> None:
    link = reset_password(owner, clerk)
    issued = AuditEntry.objects.get(action="link_issued", model="auth.user")
    assert (issued.actor_name, issued.object_text, issued.reason) == ("owner", "clerk", "Forgot it")
    choose_password(link)
    choose_password(link)  # Rejections are logged, too.
    changed = AuditEntry.objects.filter(action="changed").latest("pk")
    assert (changed.actor_name, changed.object_text) == ("clerk", "clerk")
    recorded = repr(list(AuditEntry.objects.values())) + capfd.readouterr().err
    assert link.split("/")[-2] not in recorded
    assert PASSWORD not in recorded


def test_pages_with_a_link_are_not_cached_and_send_no_referrer(owner: Client, clerk: User) -> None:
    link = reset_password(owner, clerk)
    page = owner.post(f"/admin/auth/user/{clerk.pk}/password/", {"reason": "x"})
    for response in (page, Client().get(link), Client().get(link, follow=True)):
        assert "no-store" in response["Cache-Control"]
        assert response["Referrer-Policy"] in {"same-origin", "no-referrer"}
