"""The command palette: results, permissions, hostile input, privacy, cost."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.events.sequencing import sequence_all
from accounts.models import Account, ApiKey, Event, PlanCode
from inventory.models import Category, Order, Pet
from petstore.audit.models import AuditEntry
from tests.conftest import OPERATOR
from tests.support.costs import explain, fill_shop, sequential_scans
from tests.support.customers import add_rejection, ban
from tests.support.skips import READS_PLANS
from tests.support.staff import clerk_with, member_of, page_url, signed_in

HUGE = "9" * 22


def search(client: Client, text: Any) -> Any:
    return client.post("/admin/search/", {"s": text})


def find(client: Client, text: str) -> list[tuple[str, str]]:
    response = search(client, text)
    assert response.status_code == 200
    return [(result.title, result.link) for result in response.context["results"]]


def find_titles(client: Client, text: str) -> list[str]:
    return [title for title, _ in find(client, text)]


# --- Results -------------------------------------------------------------------------------------


def test_account_is_found_by_name_with_issue_a_key(staff: Client, account: Account) -> None:
    assert find(staff, "acme") == [
        ("Acme Pets", f"/admin/accounts/account/{account.pk}/change/"),
        ("Issue a key for Acme Pets", f"/admin/accounts/apikey/add/?account={account.pk}"),
    ]
    assert find_titles(staff, account.public_id)[0] == "Acme Pets"
    Account.objects.update(contact_email="ann@example.test")
    assert find_titles(staff, "Ann@exam")[0] == "Acme Pets"


@pytest.mark.parametrize("text", ["lif", "lift", "lift the ban on", "lift the ban on acme", "lift {key}"])
def test_banned_key_is_found_with_the_action_to_lift_its_ban(staff: Client, key: ApiKey, text: str) -> None:
    assert key.public_id not in " ".join(find_titles(staff, "lift"))
    ban(key)
    expected = (f"Lift the ban on {key.name or key.public_id}", f"/admin/accounts/apikey/{key.pk}/unban/")
    assert expected in find(staff, text.format(key=key.public_id))
    assert "UTC" in search(staff, key.public_id).text


@pytest.mark.parametrize("text", ["lift", "lift the susp", "lift the suspension of acme", "lift acme"])
def test_account_is_found_with_the_suspension_action_that_applies(
    staff: Client, account: Account, text: str
) -> None:
    suspend = ("Suspend Acme Pets", page_url(account, "suspend"))
    lift = ("Lift the suspension of Acme Pets", page_url(account, "lift_suspension"))
    assert find(staff, "suspend acme") == [suspend]
    assert lift not in find(staff, text)
    account.suspend(reason="Unpaid", by=OPERATOR)
    assert find(staff, "suspend acme") == []
    assert lift in find(staff, text)


@pytest.mark.parametrize("text", ["app", "approve", "approve orders"])
def test_waiting_orders_are_found_by_their_next_action(staff: Client, order: Order, text: str) -> None:
    assert find_titles(staff, text)[:2] == ["Orders to approve", f"Approve order {order.pk}"]
    assert find_titles(signed_in(member_of("Viewer")), text) == []


@pytest.mark.parametrize("text", ["issue key", "issue a key f", "issue a key for acme", "Issue acme pets"])
def test_issue_action_is_found_by_prefixes_of_the_phrase(
    staff: Client, account: Account, text: str
) -> None:
    assert "Issue a key for Acme Pets" in find_titles(staff, text)


@pytest.mark.parametrize(
    ("text", "title", "link"),
    [
        ("ban", "Lift the ban on ...", "/admin/accounts/apikey/?state=banned"),
        ("unban", "Lift the ban on ...", "/admin/accounts/apikey/?state=banned"),
        ("rotate", "Rotate ...", "/admin/accounts/apikey/?state=active"),
        ("rotate acme", "Rotate {key}", "/admin/accounts/apikey/{key.pk}/rotate/"),
        ("rotate {key}", "Rotate {key}", "/admin/accounts/apikey/{key.pk}/rotate/"),
        ("revoke", "Revoke ...", "/admin/accounts/apikey/?state=active"),
        ("revoke acme", "Revoke {key}", "/admin/accounts/apikey/{key.pk}/revoke/"),
        ("change plan", "Change the plan of ...", "/admin/accounts/account/"),
        (
            "change plan acme", "Change the plan of Acme Pets",
            "/admin/accounts/account/{account.pk}/change-plan/",
        ),
        ("limits", "Change the plan of Acme Pets", "/admin/accounts/account/{account.pk}/change-plan/"),
        ("limits acme", "Try other limits for Acme Pets", "/admin/accounts/account/{account.pk}/what-if/"),
        ("suspend", "Suspend ...", "/admin/accounts/account/?state=active"),
        ("invite members", "Accounts", "/admin/accounts/account/"),
        ("outage", "Incidents", "/admin/health/incident/"),
        ("2fa", "Security", "/account/security/"),
        ("log out", "Sign out", ""),
    ],
)  # fmt: skip
def test_command_is_found_by_its_synonyms(
    staff: Client, key: ApiKey, text: str, title: str, link: str
) -> None:
    names = {"account": key.account, "key": key}
    assert (title.format(**names), link.format(**names)) in find(staff, text.format(**names))


def test_sign_out_is_a_button_of_the_form_on_the_page(staff: Client) -> None:
    assert '<button type="submit" form="logout-form">' in search(staff, "sign out").text
    assert '<form id="logout-form" method="post"' in staff.get("/admin/").text


def test_more_rows_than_shown_are_announced_with_a_link_to_all(
    staff: Client, account: Account, category: Category
) -> None:
    assert "1 result" in search(staff, "suspend acme").text
    for number in range(5):
        Account.objects.create(name=f"Acme {number}", plan_id=PlanCode.FREE)
    for text, title, link in [
        ("suspend", "Suspend ...", "?state=active"),
        ("suspend acme", "Suspend ...", "?state=active&q=acme"),
        ("acme", "All accounts that match", "?q=acme"),
    ]:
        assert (title, f"/admin/accounts/account/{link}") in find(staff, text)
        assert "The first 5 of each kind." in search(staff, text).text
    Pet.objects.bulk_create(Pet(name=f"Rex {number}", category=category) for number in range(6))
    assert ("All pets that match", "/admin/inventory/pet/?q=rex") in find(staff, "rex")


def test_key_is_found_by_public_id_and_by_its_text(staff: Client, key: Any) -> None:
    page = f"/admin/accounts/apikey/{key.pk}/change/"
    for text in (key.public_id, key.text, f"  Authorization: Bearer {key.text} ", key.public_id[:10]):
        assert (key.public_id, page) in find(staff, text), text


def test_order_is_found_by_id_with_its_legal_actions(staff: Client, order: Order) -> None:
    page = f"/admin/inventory/order/{order.pk}/change/"
    for text in (f"order {order.pk}", f"Order #{order.pk}"):
        assert find(staff, text) == [
            (f"Order {order.pk}", page),
            (f"Approve order {order.pk}", page),
            (f"Cancel order {order.pk}", page),
        ]
    assert find(staff, f"approve order {order.pk}") == [(f"Approve order {order.pk}", page)]
    assert f"Order {order.pk}" in find_titles(staff, str(order.pk))
    order.approve(by="tests")
    assert find_titles(staff, f"approve {order.pk}") == []
    assert find_titles(staff, f"ship {order.pk}") == [f"Ship order {order.pk}"]


def test_pet_is_found_by_id_and_by_prefix_of_its_name(staff: Client, pet: Pet) -> None:
    page = f"/admin/inventory/pet/{pet.pk}/change/"
    for text in ("rex", str(pet.pk), f"pet {pet.pk}", f"Pet #{pet.pk}"):
        assert (f"Rex ({pet.pk})", page) in find(staff, text), text
    assert find_titles(staff, "ex") == ["Export pets"]


def test_request_id_finds_rejection_and_audit_entries(staff: Client, key: ApiKey) -> None:
    add_rejection(key, request_id="a-request.1")
    AuditEntry.objects.create(action="changed", address="127.0.0.1", request_id="a-request.1")
    assert [link for _, link in find(staff, "a-request.1")] == [
        "/admin/backoffice/auditentry/?q=a-request.1&sign_ins=shown",
        "/admin/accounts/refusal/?q=a-request.1",
    ]


def test_member_of_staff_is_found_by_username_prefix(staff: Client, boss: User) -> None:
    assert find(staff, "bo") == [("boss", f"/admin/auth/user/{boss.pk}/change/")]


def test_event_is_found_by_its_number(staff: Client, key: ApiKey) -> None:
    sequence_all()
    event = Event.objects.earliest("pk")
    for text in (f"event {event.pk}", f"Event #{event.pk}"):
        assert find(staff, text) == [(f"Event {event.pk}", f"/admin/accounts/event/{event.pk}/change/")]
    assert find_titles(staff, "events") == ["Events"]
    assert find(staff, f"event {HUGE}") == []


def test_pages_and_actions_are_found_by_prefixes_of_their_words(staff: Client) -> None:
    assert find_titles(staff, "orders") == ["Orders"]
    assert find_titles(staff, "imp pe") == ["Import pets"]
    assert find_titles(staff, "refused") == ["Why refused?"]
    assert find_titles(staff, "pets")[0] == "Pets"
    assert {"Security", "Add a pet", "Audit trail", "Issue a key"} <= set(find_titles(staff, ""))


def test_every_link_leads_to_an_existing_page(staff: Client, order: Order, key: ApiKey, pet: Pet) -> None:
    for text in ("", "acme", str(order.pk), str(pet.pk), key.public_id, "boss"):
        for title, link in find(staff, text):
            if title == "Sign out":
                continue
            assert staff.get(link).status_code == 200, title


def test_empty_result_has_a_message(staff: Client) -> None:
    assert "No results." in search(staff, "zebra").text


# --- Permissions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "text", "expected"),
    [
        ("Viewer", "acme", ["Acme Pets"]),
        ("Support", "acme", ["Acme Pets", "Issue a key for Acme Pets"]),
        ("Stock", "acme", []),
        ("Viewer", "order {order}", ["Order {order}"]),
        ("Stock", "order {order}", ["Order {order}", "Approve order {order}", "Cancel order {order}"]),
        ("Viewer", "add a pet", []),
        ("Stock", "add a pet", ["Add a pet"]),
    ],
)
def test_each_group_finds_only_permitted_results(
    order: Order, group: str, text: str, expected: list[str]
) -> None:
    client = signed_in(member_of(group))
    titles = [title.format(order=order.pk) for title in expected]
    assert find_titles(client, text.format(order=order.pk)) == titles


def test_forbidden_rows_are_not_queried(order: Order) -> None:
    client = clerk_with("view_pet")
    with CaptureQueriesContext(connection) as queries:
        assert search(client, "17").status_code == 200
    sql = " ".join(query["sql"] for query in queries)
    assert "inventory_pet" in sql
    assert "accounts_" not in sql
    assert "inventory_order" not in sql


# --- Hostile input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "\0", "x" * 300, "x" * 100_000, HUGE, "9" * 19, "9" * 5000, f"order {HUGE}", "-1", "#", "order",
        "%", "_", "'\" \\", "٣", "issue", "issue a key for", "psk_live_", "psk_live_" + "x" * 90,
        "\U0010ffff", "\ud800".encode("utf-8", "surrogatepass"), "=1+1", "<b>", " ",
    ],
)  # fmt: skip
def test_any_text_gives_a_page(staff: Client, order: Order, key: ApiKey, text: Any) -> None:
    assert search(staff, text).status_code in {200, 400}


# --- Privacy and cost ----------------------------------------------------------------------------


def test_search_terms_are_never_stored(
    staff: Client, account: Account, capfd: pytest.CaptureFixture[str]
) -> None:
    response = search(staff, "acme")
    assert "no-store" in response["Cache-Control"]
    assert staff.get("/admin/search/?s=acme").status_code == 405  # Proxies log addresses.
    assert "acme" not in capfd.readouterr().err
    Account.objects.create(name="Acme of today", plan_id=PlanCode.FREE)
    assert "Acme of today" in find_titles(staff, "acme")


def test_no_query_has_the_secret_of_a_key(staff: Client, key: Any) -> None:
    with CaptureQueriesContext(connection) as queries:
        search(staff, key.text)
    sql = " ".join(query["sql"] for query in queries)
    assert key.public_id in sql
    assert key.text[25:] not in sql


def test_search_reads_a_bounded_number_of_rows(
    staff: Client, account: Account, issue: Callable[..., Any], category: Category
) -> None:
    def count_queries(text: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            response = search(staff, text)
        assert len(response.context["results"]) <= 25
        selects = [
            query["sql"] for query in queries if re.search(r"FROM .(accounts|inventory)_", query["sql"])
        ]
        assert not [sql for sql in selects if " LIMIT " not in sql and '."id" = ' not in sql]
        return len(queries)

    before = count_queries("acme")
    for number in range(12):
        new = Account.objects.create(name=f"Acme {number}", plan_id=PlanCode.FREE)
        issue(of=new)
        Pet.objects.create(name=f"Acme {number}", category=category)
    assert count_queries("acme") == before
    assert before <= 12


@READS_PLANS
def test_no_search_scans_a_large_table(staff: Client, category: Category) -> None:
    fill_shop()
    with CaptureQueriesContext(connection) as queries:
        for text in (
            "Customer 2", "c", "1700", "00001700abcdef", "zzzz", "order 1700", "request-7", "lift",
            "rotate", "suspend", "approve",
        ):  # fmt: skip
            assert search(staff, text).status_code == 200
    for plan in explain(query["sql"] for query in queries):
        assert not sequential_scans(plan), plan
