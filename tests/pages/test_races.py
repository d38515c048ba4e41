"""Concurrent actions of staff and operators take effect once."""

import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import StringIO
from itertools import cycle
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from accounts.models import Account, Actor, ApiKey, Invitation, Membership
from accounts.usage.batch import Batch
from inventory.models import Category, Order, OrderStatus, Pet, TransitionError
from petstore.api.link_header import get_page_url
from petstore.management.commands.quickstart import create_staff_login
from petstore.sign_in import forms, rate_limits
from petstore.sign_in.password_links import create_link
from tests.conftest import COMMITTED
from tests.support.concurrency import before_commit, run_concurrently
from tests.support.members import sign_in
from tests.support.passkeys import ORIGIN, Passkey, get_options
from tests.support.staff import PASSWORD, enter_password, signed_in, superuser
from tests.support.thorough import times
from tests.support.two_factor import add_app, add_recovery_codes, current_code, get_secret

pytestmark = COMMITTED
STAFF = 4


def superuser_clients() -> list[Client]:
    boss = superuser()
    return [signed_in(boss) for _ in range(STAFF)]


def post_concurrently(clients: list[Client], page: str, *forms: dict[str, Any]) -> list[Any]:
    """Each client sends one of the forms."""
    pairs = zip(clients, cycle(forms), strict=False)
    return run_concurrently(*(partial(client.post, page, form) for client, form in pairs))


def test_concurrent_order_and_manual_status_change_exclude_each_other() -> None:
    category = Category.objects.earliest("id")
    account = Account.objects.create(name="Acme Pets", plan_id="business")
    ids = [Pet.objects.create(name=f"Pet {number}", category=category).pk for number in range(10)]

    def buy() -> None:
        for pk in ids[::-1]:
            try:
                Order.objects.place(account_id=account.pk, pet_id=pk, by="tests")
            except TransitionError:
                continue

    boss, *_ = superuser_clients()
    sell = partial(boss.post, "/admin/inventory/pet/", {"action": "mark_sold", "_selected_action": ids})
    run_concurrently(buy, sell, buy)
    ordered = set(Order.objects.filter(status=OrderStatus.PLACED).values_list("pet_id", flat=True))
    for pet in Pet.objects.filter(pk__in=ids):
        assert pet.status == ("pending" if pet.pk in ordered else "sold")
        assert pet.events.count() == 1


def test_concurrently_confirmed_file_is_imported_once() -> None:
    clients = superuser_clients()
    file = SimpleUploadedFile("pets.csv", b"name,category\nRex,Dogs\nTom,Cats\n")
    page = clients[0].post("/admin/inventory/pet/import/", {"import_file": file})
    token = re.findall(r'name="upload" value="([^"]+)"', page.text)[0]
    responses = post_concurrently(clients, "/admin/inventory/pet/process_import/", {"upload": token})
    assert {response.status_code for response in responses} == {302}
    assert Pet.objects.count() == 2


def run(*command: str) -> Any:
    """Run a command; return its output or its CommandError."""
    out = StringIO()
    try:
        call_command(*command, "--json", stdout=out)
    except CommandError as error:
        return error
    return json.loads(out.getvalue())


def test_concurrent_first_starts_create_one_staff_login() -> None:
    for _ in range(times(5, 2)):
        passwords = [*filter(None, run_concurrently(*[create_staff_login] * 4))]
        user = User.objects.get()
        assert [user.check_password(password) for password in passwords] == [True]
        user.delete()


def test_concurrently_seeded_history_is_added_once_or_rejected_with_a_reason() -> None:
    command = ("seed_demo", "--pets", "0", "--history-days", "1", "--accounts", "3", "--force")
    responses = run_concurrently(*[lambda: run(*command)] * 3)
    errors = [str(response) for response in responses if isinstance(response, CommandError)]
    assert len(errors) < 3
    assert all("No customers were added" in text for text in errors)
    assert Account.objects.count() == 3 * (3 - len(errors))


def test_concurrently_added_account_is_added_once_and_reported_to_the_others() -> None:
    forms = [{"name": name, "plan": "free"} for name in ("Caf\u00e9", "Cafe\u0301")]
    responses = post_concurrently(superuser_clients(), "/admin/accounts/account/add/", *forms)
    errors = [response.text for response in responses if response.status_code != 302]
    assert len(errors) == STAFF - 1
    sentences = ("already exists", "has this name already", "Another user has just changed")
    assert all(any(sentence in text for sentence in sentences) for text in errors)
    assert Account.objects.count() == 1


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time.")
@pytest.mark.parametrize("by", ["form", "command"])
def test_usage_is_written_during_a_save_of_the_account(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise they deadlock: the writer may hold keys that the save locks."""
    account = Account.objects.create(name="Acme Pets", plan_id="free")
    key, _ = ApiKey.objects.issue(account, by=Actor("tests"))
    save = Account.save

    def write_usage() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '2s'")
        Batch(requests=Counter([(key.pk, 20_000)]), last_used={key.pk: 0}).write(0)

    def save_meanwhile(self: Account, *args: Any, **options: Any) -> None:
        run_concurrently(write_usage)
        save(self, *args, **options)

    monkeypatch.setattr(Account, "save", save_meanwhile)
    if by == "form":
        boss, *_ = superuser_clients()
        page = f"/admin/accounts/account/{account.pk}/change-plan/"
        assert boss.post(page, {"reason": "They grow", "choice": "pro"}).status_code == 302
    else:
        assert run("issue_key", "--account", "Acme Pets", "--plan", "pro")["plan"] == "pro"
    assert key.usage.get().admitted == 1
    assert Account.objects.get().plan_id == "pro"


def test_concurrent_submits_of_a_key_form_issue_one_key() -> None:
    account = Account.objects.create(name="Acme Pets", plan_id="free")
    clients = superuser_clients()
    page, form = "/admin/accounts/apikey/add/", {"account": account.pk, "scopes": ["pets:read"]}
    form["submission_token"] = clients[0].get(page).context["adminform"].form["submission_token"].value()
    responses = post_concurrently(clients, page, form)
    repeated = ["This key has already been issued." in response.text for response in responses]
    assert sorted(repeated) == [False, *[True] * (STAFF - 1)]
    assert ApiKey.objects.count() == 1


def test_concurrent_two_factor_set_ups_confirm_one_app() -> None:
    page = "/account/security/app/"
    boss = User.objects.create_superuser("boss", password=PASSWORD)
    clients = [enter_password() for _ in range(STAFF)]
    secrets = [get_secret(client.get(page)) for client in clients]
    responses = post_concurrently(clients, page, *({"code": current_code(secret)} for secret in secrets))
    [app] = Authenticator.objects.filter(user=boss, type="totp")
    winner = secrets.index(app.data["secret"])
    assert responses[winner].url == "/account/security/recovery-codes/"
    inside = [client.get("/admin/").status_code == 200 for client in clients]
    assert [place for place, each in enumerate(inside) if each] == [winner]


def test_concurrent_uses_of_a_code_sign_in_once() -> None:
    boss = User.objects.create_superuser("boss", password=PASSWORD)
    code = current_code(add_app(boss))
    clients = [Client(REMOTE_ADDR=f"192.0.2.{number}") for number in range(STAFF)]
    for client in clients:
        client.post("/account/login/", {"login": "boss", "password": PASSWORD})
    responses = post_concurrently(clients, "/account/login/code/", {"code": code})
    assert Counter(response.status_code for response in responses) == {302: 1, 200: STAFF - 1}


def test_code_of_a_concurrently_removed_factor_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    boss = superuser()
    code, client = current_code(add_app(boss)), sign_in(boss)
    wrap: Callable[[Authenticator], Any] = Authenticator.wrap
    add_recovery_codes(boss, "aaaaaaaa")

    def remove(self: Authenticator) -> Any:
        Authenticator.objects.filter(pk=self.pk).delete()
        return wrap(self)

    monkeypatch.setattr(Authenticator, "wrap", remove)
    for each in (code, "aaaaaaaa"):
        response = client.post("/account/confirm/code/", {"code": each})
        assert (response.status_code, "try again" in response.text) == (409, True)


def test_concurrent_uses_of_a_password_link_set_one_password() -> None:
    clerk = User.objects.create(username="clerk", is_staff=True)
    link = create_link(clerk, by=superuser()).removeprefix(get_page_url("")[:-1])
    browsers = [Client() for _ in range(STAFF)]
    pages = [browser.get(link, follow=True).request["PATH_INFO"] for browser in browsers]

    assert len({*pages}) == 1
    phrases = [f"pass phrase number {number}" for number in range(STAFF)]
    forms = [{"password1": phrase, "password2": phrase} for phrase in phrases]
    responses = post_concurrently(browsers, pages[0], *forms)
    assert Counter(response.status_code for response in responses) == {302: 1, 410: STAFF - 1}


# Otherwise the second would wait for the counter of attempts that the first has not committed.
ADDRESSES = {"ann": "192.0.2.1", "ben": "192.0.2.2"}


def overlap(first: Callable[[], Any], second: Callable[[], Any]) -> None:
    """Run the second before the first commits. SQLite has one writer at a time."""
    if connection.vendor == "postgresql":
        with before_commit(second):
            first()
    else:
        run_concurrently(first, second)


def make_account_with_owners(*names: str) -> tuple[Account, list[Membership]]:
    account = Account.objects.create(name="Acme Pets", plan_id="business")
    members = []
    for name in names:
        fields = {"email": f"{name}@example.com", "role": "owner"}
        invitation, _ = Invitation.objects.invite(account, **fields, by=Actor("tests"))
        members.append(invitation.accept(User.objects.create(username=name), by=Actor("tests")))
    return account, members


def test_concurrently_added_passkeys_keep_the_limit(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.BASE_URL, settings.ORIGIN = f"{ORIGIN}/v1", ORIGIN
    monkeypatch.setattr(forms, "MAX_PASSKEYS", 1)
    monkeypatch.setattr(rate_limits, "count_attempt", lambda *attempt: 0)  # It makes the second wait.
    page, browser = "/account/security/passkeys/add/", sign_in(superuser())
    options = get_options(browser.get(page))
    overlap(*(partial(browser.post, page, {"credential": Passkey().create(options)}) for _ in range(2)))
    assert Authenticator.objects.filter(type="webauthn").count() == 1


def test_rejected_passkey_is_reported_although_its_check_locks_the_user() -> None:
    """The page is rendered after the transaction."""
    page = sign_in(superuser()).post("/account/security/passkeys/add/", {"credential": "{}"})
    assert (page.status_code, "its response is incomplete" in page.text) == (200, True)


def test_invitation_used_concurrently_admits_one_person() -> None:
    account, _ = make_account_with_owners()
    fields = {"email": "kim@example.com", "role": "owner"}
    _, link = Invitation.objects.invite(account, **fields, by=Actor("tests"))
    outcomes = []

    def join(name: str) -> None:
        fields = {"username": name, "password1": PASSWORD, "password2": PASSWORD}
        client = Client(raise_request_exception=False, REMOTE_ADDR=ADDRESSES[name])
        response = client.post(link[link.index("/account/") :], fields)
        outcomes.append((response.status_code == 302, "_auth_user_id" in client.session))
        assert response.status_code == 302 or "no longer valid" in response.text

    overlap(partial(join, "ann"), partial(join, "ben"))
    assert sorted(outcomes) == [(False, False), (True, True)]
    assert account.memberships.count() == User.objects.count() == 1


@pytest.mark.parametrize(
    ("field", "spelling"), [("username", "acme"), ("username", "ACME"), ("account_name", "acme")]
)
def test_name_used_in_concurrent_sign_ups_is_taken_once(settings: Any, field: str, spelling: str) -> None:
    settings.SIGN_UP = "open"
    outcomes = []

    def sign_up(name: str, spelling: str) -> None:
        fields = {"username": name, "password1": PASSWORD, "password2": PASSWORD, "account_name": name}
        client = Client(raise_request_exception=False, REMOTE_ADDR=ADDRESSES[name])
        response = client.post("/account/sign-up/", fields | {field: spelling})
        outcomes.append((response.status_code in {200, 409}, "_auth_user_id" in client.session))

    overlap(partial(sign_up, "ann", "acme"), partial(sign_up, "ben", spelling))
    assert sorted(outcomes) == [(False, True), (True, False)]
    assert Account.objects.count() == User.objects.count() == 1


def ignoring_errors(action: Callable[..., Any], *args: Any, **options: Any) -> None:
    with suppress(ValidationError):
        action(*args, **options, by=Actor("tests"))


def test_two_owners_cannot_remove_each_other() -> None:
    account, (ann, ben) = make_account_with_owners("ann", "ben")
    fields = {"email": "cat@example.com", "role": "reader"}
    invitation, _ = Invitation.objects.invite(account, **fields, by=Actor("tests"))
    invitation.accept(User.objects.create(username="cat"), by=Actor("tests"))
    overlap(partial(ignoring_errors, ann.remove), partial(ignoring_errors, ben.remove))
    assert sorted(account.memberships.values_list("role", flat=True)) == ["owner", "reader"]


def test_concurrent_invitations_keep_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accounts.models.members.MAX_OPEN_INVITATIONS", 1)
    account, _ = make_account_with_owners("ann")
    invite = partial(ignoring_errors, Invitation.objects.invite, account, role="reader")
    overlap(*(partial(invite, email=f"{name}@example.com") for name in ("ben", "cat")))
    assert account.invitations.open().count() == 1


def test_concurrently_accepted_invitations_keep_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page of an account reads all accounts of a person."""
    monkeypatch.setattr("accounts.models.members.MAX_MEMBERSHIPS", 1)
    kim, accepts = User.objects.create(username="kim"), []
    for name in ("Acme Pets", "Zoo"):
        account = Account.objects.create(name=name, plan_id="business")
        fields = {"email": "kim@example.com", "role": "owner"}
        invitation, _ = Invitation.objects.invite(account, **fields, by=Actor("tests"))
        accepts.append(partial(ignoring_errors, invitation.accept, kim))
    overlap(*accepts)
    assert kim.memberships.count() == 1


def test_two_superusers_cannot_remove_each_other_from_staff() -> None:
    ann, ben = superuser("ann"), superuser("ben")

    def remove(client: Client, user: User) -> None:
        client.post(f"/admin/auth/user/{user.pk}/remove-from-staff/", {"reason": "x"})

    overlap(partial(remove, signed_in(ann), ben), partial(remove, signed_in(ben), ann))
    assert User.objects.filter(is_staff=True).count() == 1
