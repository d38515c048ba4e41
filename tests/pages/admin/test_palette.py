"""The command palette: results, permissions, hostile input, privacy, cost."""

import re
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
from tests.support.customers import add_rejection
from tests.support.staff import clerk_with, member_of, signed_in

HUGE = "9" * 22


def search(client: Client, text: Any) -> Any:
    return client.post("/admin/search/", {"s": text})


def find(client: Client, text: str) -> list[tuple[str, str]]:
    response = search(client, text)
    assert response.status_code == 200
    return [(result.title, result.link) for result in response.context["results"]]


def find_titles(client: Client, text: str) -> list[str]:
    return [title for title, _ in find(client, text)]


ACCOUNTS, KEYS = "/admin/accounts/account/", "/admin/accounts/apikey/"
ISSUE = ("Issue a key for Acme Pets", KEYS + "add/?account={account.pk}")
FOUND = [  # The text, and the title and link of one of its results.
    *(
        (text, "Acme Pets", ACCOUNTS + "{account.pk}/change/")
        for text in ("acme", "{account.public_id}", "Ann@exam")
    ),
    ("acme", *ISSUE),
    *(
        (text, "{key}", KEYS + "{key.pk}/change/")
        for text in ("{key.public_id}", " Authorization: Bearer {key.text} ")
    ),
    *(
        (text, "Rex ({pet.pk})", "/admin/inventory/pet/{pet.pk}/change/")
        for text in ("rex", "{pet.pk}", "Pet #{pet.pk}")
    ),
    ("bo", "boss", "/admin/auth/user/{boss.pk}/change/"),
    ("Event #{event.pk}", "Event {event.pk}", "/admin/accounts/event/{event.pk}/change/"),
    ("unban", "Unban ...", f"{KEYS}?state=banned"),
    ("Rotate {key}", "Rotate {key}", f"{KEYS}?state=active&q={{key}}"),
    ("sus acme pets", "Suspend acme pets", f"{ACCOUNTS}?state=active&q=acme+pets"),
    ("invite members", "Accounts", ACCOUNTS),
    ("ban", "API keys", KEYS),
    ("2fa", "Security", "/account/security/"),
]


def test_rows_and_commands_are_found_by_their_names_ids_and_synonyms(
    staff: Client, boss: User, key: ApiKey, pet: Pet
) -> None:
    Account.objects.update(contact_email="ann@example.test")
    sequence_all()
    rows = {"account": key.account, "key": key, "pet": pet, "boss": boss, "event": Event.objects.first()}
    for text, title, link in FOUND:
        assert (title.format(**rows), link.format(**rows)) in find(staff, text.format(**rows)), text


def test_request_id_finds_rejection_and_audit_entries(staff: Client, key: ApiKey) -> None:
    add_rejection(key, request_id="a-request.1")
    AuditEntry.objects.create(action="changed", address="127.0.0.1", request_id="a-request.1")
    assert [link for _, link in find(staff, "a-request.1")] == [
        "/admin/backoffice/auditentry/?q=a-request.1&sign_ins=shown",
        "/admin/accounts/rejection/?q=a-request.1",
    ]


def test_waiting_orders_are_found_by_their_next_action(staff: Client, order: Order) -> None:
    viewer = signed_in(member_of("Viewer"))
    for text in ("app", "approve", "approve orders"):
        assert find_titles(staff, text)[:2] == ["Orders to approve", f"Approve order {order.pk}"]
        assert find_titles(viewer, text) == []


def test_more_rows_than_shown_have_a_link_to_all(
    staff: Client, account: Account, category: Category
) -> None:
    assert "1 result" in search(staff, "suspend acme").text
    assert "2 results" in search(staff, "acme").text
    for number in range(5):
        Account.objects.create(name=f"Acme {number}", plan_id=PlanCode.FREE)
    assert ("All accounts that match", f"{ACCOUNTS}?q=acme") in find(staff, "acme")
    Pet.objects.bulk_create(Pet(name=f"Rex {number}", category=category) for number in range(6))
    assert ("All pets that match", "/admin/inventory/pet/?q=rex") in find(staff, "rex")


def test_order_is_found_by_id_with_its_legal_actions(staff: Client, order: Order) -> None:
    page = f"/admin/inventory/order/{order.pk}/change/"
    titles = [f"Order {order.pk}", f"Approve order {order.pk}", f"Cancel order {order.pk}"]
    assert find(staff, f"Order #{order.pk}") == [(title, page) for title in titles]
    assert find(staff, f"approve order {order.pk}") == [(f"Approve order {order.pk}", page)]
    assert f"Order {order.pk}" in find_titles(staff, str(order.pk))
    order.approve(by="tests")
    assert find_titles(staff, f"approve {order.pk}") == []
    assert find_titles(staff, f"ship {order.pk}") == [f"Ship order {order.pk}"]


def test_pages_and_actions_are_found_by_prefixes_of_their_words(staff: Client, pet: Pet) -> None:
    for text, titles in {
        "orders": ["Orders"], "events": ["Events"], "imp pe": ["Import pets"], "ex": ["Export pets"],
        "rejected": ["Rejected requests"], f"event {HUGE}": [], "zebra": [],
    }.items():  # fmt: skip
        assert find_titles(staff, text) == titles
        assert ("No results." in search(staff, text).text) == (not titles)
    assert {"Security", "Add a pet", "Audit trail", "Issue a key"} <= set(find_titles(staff, ""))


@pytest.mark.same_on_both
def test_every_link_leads_to_an_existing_page(staff: Client, order: Order, key: ApiKey, pet: Pet) -> None:
    found = {link for text in ("", "acme", str(order.pk), key.public_id) for _, link in find(staff, text)}
    for link in found:
        assert staff.get(link).status_code == 200, link


def test_each_group_finds_only_permitted_results(order: Order) -> None:
    viewer, support, stock = (signed_in(member_of(group)) for group in ("Viewer", "Support", "Stock"))
    title = f"order {order.pk}"
    for client, text, titles in (
        (viewer, "acme", ["Acme Pets"]), (viewer, title, [title.capitalize()]), (viewer, "add a pet", []),
        (support, "acme", ["Acme Pets", "Issue a key for Acme Pets"]), (stock, "acme", []),
        (stock, title, [title.capitalize(), f"Approve {title}", f"Cancel {title}"]),
        (stock, "add a pet", ["Add a pet"]), (viewer, "rotate", ["API keys"]), (stock, "rotate", []),
    ):  # fmt: skip
        assert find_titles(client, text) == titles


def test_forbidden_rows_are_not_queried(order: Order) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert search(clerk_with("view_pet"), "17").status_code == 200
    sql = " ".join(query["sql"] for query in queries)
    assert "inventory_pet" in sql
    assert not re.search("accounts_|inventory_order", sql)


HOSTILE: list[Any] = [
    "\0", "x" * 300, "x" * 100_000, HUGE, "9" * 19, "9" * 5000, f"order {HUGE}", "-1", "#", "order", "%",
    "_", "'\" \\", "٣", "issue", "issue a key for", "psk_live_", "psk_live_" + "x" * 90, "\U0010ffff",
    "\ud800".encode("utf-8", "surrogatepass"), "=1+1", "<b>", " ",
]  # fmt: skip


def test_any_text_gives_a_page(staff: Client, order: Order, key: ApiKey) -> None:
    for text in HOSTILE:
        assert search(staff, text).status_code in {200, 400}, text[:99]


def test_no_search_is_stored(staff: Client, account: Account, capfd: pytest.CaptureFixture[str]) -> None:
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
    assert (key.public_id in sql, key.text[25:] in sql) == (True, False)
