"""Access to the pages of an account: members, roles, confirmation and second factors (D46, D48)."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import resolve

from accounts.models import Account, ApiKey, Invitation, Membership, PlanCode, Role, WebhookEndpoint
from accounts.portal import key_views, people_views, webhook_forms
from accounts.portal import urls as portal_urls
from inventory.models import Category, Order, Pet
from petstore import urls
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR
from tests.support.members import member_of, sign_in
from tests.support.staff import PASSWORD
from tests.support.two_factor import add_app

pytestmark = pytest.mark.same_on_both
READER, DEVELOPER, OWNER = Role.READER, Role.DEVELOPER, Role.OWNER
URL = "https://93.184.216.34/hook"


class Page(NamedTuple):
    """The roles that a GET and a POST need, whether they ask for the password again, and a valid form."""

    get: Role = READER
    post: Role = READER
    is_confirmed: bool = False
    form: dict[str, Any] | None = None


def change(role: Role, /, **form: Any) -> Page:
    return Page(role, role, is_confirmed=True, form=form)


VIEW, ATTEMPT = Page(), "webhooks/{webhook}/attempts/{attempt}/"
PAGES = {
    "": VIEW, "usage.csv": VIEW, "requests/": VIEW, "orders/": VIEW, "orders/{order}/": VIEW,
    "keys/": VIEW, "keys/{key}/": VIEW, "webhooks/": VIEW, "webhooks/{webhook}/": VIEW,
    "orders/{order}/cancel/": Page(DEVELOPER, DEVELOPER, form={}),
    "keys/issue/": change(DEVELOPER, name="Shop", scopes=["pets:read"]),
    "keys/{key}/rotate/": change(DEVELOPER, overlap_hours="24"),
    "keys/{key}/narrow/": change(DEVELOPER, key_scopes=["pets:read"], reason="Reads only"),
    "keys/{key}/revoke/": change(DEVELOPER, reason="Leaked"),
    "webhooks/add/": change(DEVELOPER, url=URL, types=["order"]),
    ATTEMPT: Page(READER, DEVELOPER, form={}),
    "webhooks/{webhook}/change/": change(DEVELOPER, url=URL, types=["key"]),
    "webhooks/{webhook}/send-test/": change(DEVELOPER),
    "webhooks/{webhook}/reveal-secret/": change(DEVELOPER),
    "webhooks/{webhook}/rotate-secret/": change(DEVELOPER, overlap="24"),
    "webhooks/{webhook}/replay/": change(DEVELOPER, since="2026-01-01T00:00"),
    "webhooks/{webhook}/disable/": change(DEVELOPER),
    "webhooks/{webhook}/enable/": change(DEVELOPER),
    "webhooks/{webhook}/remove/": change(DEVELOPER),
    "people/": Page(READER, OWNER, is_confirmed=True, form={"email": "new@example.com", "role": "reader"}),
    "people/leave/": change(READER),
    "people/second-factor/": change(OWNER, required="on"),
    "people/{member}/role/": change(OWNER, role="reader"),
    "people/{member}/remove/": change(OWNER),
    "people/{invitation}/withdraw/": change(OWNER),
}  # fmt: skip
CONFIRMED = {page for page, needs in PAGES.items() if needs.is_confirmed}
OF_ROWS = [page for page in PAGES if "{" in page]


def add_rows(account: Account, category: Category) -> dict[str, str]:
    """Add a row of each kind to the account; return their IDs as in URLs."""
    pet = Pet.objects.create(name="Rex", category=category)
    user = User.objects.create(username=f"member of {account}")
    webhook = WebhookEndpoint.objects.add(account, url=URL, by=OPERATOR)
    email = f"{account.public_id}@example.com"
    invitation, _ = Invitation.objects.invite(account, email=email, role=OWNER, by=OPERATOR)
    return {
        "order": f"{Order.objects.place(account_id=account.pk, pet_id=pet.pk, by='tests').pk}",
        "key": f"{ApiKey.objects.issue(account, by=OPERATOR)[0]}",
        "webhook": webhook.public_id,
        "attempt": f"{webhook.attempt_log.create(event_id=7, event_type='order.placed').pk}",
        "member": Membership.objects.create(account=account, user=user, role=OWNER).public_id,
        "invitation": invitation.public_id,
    }


@pytest.fixture
def rows(account: Account, category: Category) -> dict[str, str]:
    return add_rows(account, category)


@pytest.fixture
def foreign(category: Category) -> dict[str, str]:
    """The rows of another account."""
    return add_rows(Account.objects.create(name="Other", plan_id=PlanCode.FREE), category)


@pytest.fixture(autouse=True)
def check_that_nothing_changes(rows: dict[str, str], foreign: dict[str, str]) -> Iterator[None]:
    before = get_state()
    yield
    assert get_state() == before


def get_state() -> list[Any]:
    changes = AuditEntry.objects.exclude(action="signed_in")
    tables: list[Any] = [changes, ApiKey.objects, Invitation.objects, Order.objects]
    return [list(table.order_by("pk").values()) for table in tables]


def send_all(
    client: Client, account_id: str, rows: dict[str, str], pages: Any = PAGES
) -> Iterator[tuple[str, str, Any]]:
    """GET and POST the pages; yield the page, its path and the response to each."""
    for page in pages:
        path = f"/account/{account_id}/{page.format(**rows)}"
        yield page, path, client.get(path)
        yield page, path, client.post(path, PAGES[page].form)


def test_every_page_of_an_account_is_listed(rows: dict[str, str]) -> None:
    patterns: list[Any] = urls.urlpatterns
    routes = {f"account/{each.pattern}" for each in portal_urls.urlpatterns}
    routes |= {str(each.pattern) for each in patterns}
    listed = {resolve(f"/account/00000000/{page.format(**rows)}").route for page in PAGES}
    assert listed == {route for route in routes if "<slug:public_id>" in route}
    verbs = {*key_views.CHANGES, *webhook_forms.CHANGES, *people_views.CHANGES}
    assert verbs <= {page.split("/")[-2] for page in OF_ROWS}


@pytest.mark.parametrize("role", Role)
def test_role_opens_and_changes_only_its_pages(account: Account, rows: dict[str, str], role: Role) -> None:
    client, home = member_of(account, role), f"/account/{account.public_id}/"
    hidden = [page for page, needs in PAGES.items() if needs.get.exceeds(role)]
    for page, needs in PAGES.items():
        path = home + page.format(**rows)
        response: Any = client.get(path)
        if page in hidden:
            assert response.status_code == 403
        else:
            assert response.status_code in {200, 302, 405}
            assert not [other for other in hidden if f'"{home}{other.format(**rows)}"' in response.text]
        if needs.post.exceeds(role):
            response = client.post(path, needs.form)
            may = "an account owner" + " or account developer" * (needs.post == DEVELOPER)
            text = f"Your role in Acme Pets is {role.label.lower()}. Ask {may}."
            assert (response.status_code, text in response.text) == (403, True)


def test_non_members_get_the_same_response_for_accounts_and_unknown_ids(
    account: Account, rows: dict[str, str], foreign: dict[str, str], boss: User
) -> None:
    stranger = member_of(Account.objects.get(name="Other"), name="ann")
    non_member = User.objects.create_user("non-member")
    few = ["", "keys/issue/"]
    for client, pages in ((stranger, [*PAGES]), (sign_in(boss), few), (sign_in(non_member), few)):
        texts = []
        for public_id in (account.public_id, "0" * 8):
            responses = [response for *_, response in send_all(client, public_id, rows, pages)]
            assert {response.status_code for response in responses} == {404}
            texts.append([re.sub(f'{public_id}|value="[^"]{{64}}"', "", each.text) for each in responses])
        assert texts[0] == texts[1]


def test_rows_of_other_accounts_are_not_found(
    account: Account, rows: dict[str, str], foreign: dict[str, str]
) -> None:
    client, path = member_of(account), f"/account/{account.public_id}/"
    own_webhook = rows | {"attempt": foreign["attempt"]}
    assert client.get(f"{path}{ATTEMPT.format(**own_webhook)}").status_code == 404
    for ids in (foreign, dict.fromkeys(foreign, "0" * 14)):
        for page, _, response in send_all(client, account.public_id, ids, OF_ROWS):
            # Whether the method is right is checked first.
            assert response.status_code in {404, 405}, page
    texts = {client.get(f"{path}keys/{key_id}/").text for key_id in (foreign["key"], "0" * 14)}
    assert len(texts) == 1


UNKNOWN = [
    "nothing/", "orders/x/", f"orders/{'9' * 30}/", "orders/-1/", f"keys/{'9' * 300}/", "keys/{key}/save/",
    "keys/{key}/unban/", "webhooks/{webhook}/x/", "webhooks/{webhook}/attempts/x/",
    f"webhooks/{{webhook}}/attempts/{'9' * 30}/", "people/{member}/delete/", "people/{member}/withdraw/",
]  # fmt: skip


def test_unknown_page_is_404(account: Account, rows: dict[str, str]) -> None:
    client = member_of(account)
    for page in UNKNOWN:
        path = f"/account/{account.public_id}/{page.format(**rows)}"
        assert client.get(path).status_code == 404
        assert client.post(path, {"reason": "x"}).status_code in {404, 405}  # Some pages have no POST.


def test_anonymous_visitors_are_redirected_to_sign_in(account: Account, rows: dict[str, str]) -> None:
    for _, path, response in send_all(Client(), account.public_id, rows):
        assert response["Location"] == f"/account/login/?next={path}"
    assert Client().get("/account/")["Location"] == "/account/login/?next=/account/"


def test_pages_are_not_cached_or_framed_and_need_a_token(account: Account, rows: dict[str, str]) -> None:
    client = member_of(account)
    client.handler.enforce_csrf_checks = True
    for _, _, response in send_all(client, account.public_id, rows):
        if response.request["REQUEST_METHOD"] == "POST":
            assert response.status_code == 403
        else:
            assert "no-store" in response["Cache-Control"]
            assert response["X-Frame-Options"] == "DENY"
            assert "frame-ancestors 'none'" in response["Content-Security-Policy"]
    client.handler.enforce_csrf_checks = False
    views = [page for page, needs in PAGES.items() if needs == VIEW]
    statuses = [response.status_code for *_, response in send_all(client, account.public_id, rows, views)]
    assert statuses == [200, 405] * len(views)


def test_changes_ask_for_the_password_after_two_hours(account: Account, rows: dict[str, str]) -> None:
    member_of(account)
    kim = User.objects.get(username="kim")
    client = sign_in(kim, hours_ago=2.1)
    for page, path, response in send_all(client, account.public_id, rows, CONFIRMED):
        assert response["Location"] == f"/account/confirm/?next={path}", page
    for page in CONFIRMED:  # The confirmation leads back with a GET.
        assert sign_in(kim).get(f"/account/{account.public_id}/{page.format(**rows)}").status_code != 405
    for page in PAGES.keys() - CONFIRMED - {"orders/{order}/cancel/"}:
        assert client.get(f"/account/{account.public_id}/{page.format(**rows)}").status_code == 200
    assert "Leaked" not in repr(client.session.items())  # Forms are not stored in the session.
    path = f"/account/{account.public_id}/keys/issue/"
    assert client.post(f"/account/confirm/?next={path}", {"password": PASSWORD})["Location"] == path
    assert client.get(path).status_code == 200
    assert sign_in(kim, hours_ago=1.9).get(path).status_code == 200


def test_second_factor_is_required_of_every_page(account: Account, rows: dict[str, str]) -> None:
    client = member_of(account)
    Account.objects.filter(pk=account.pk).update(requires_second_factor=True)
    for _, _, response in send_all(client, account.public_id, rows):
        assert (response.status_code, "Second factor required" in response.text) == (403, True)
        assert rows["key"] not in response.text
    add_app(User.objects.get(username="kim"))
    assert client.get(f"/account/{account.public_id}/keys/").status_code == 200
