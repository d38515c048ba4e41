"""The audit trail records every change by staff with old and new values, and is append-only."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Account, ApiKey
from inventory.models import Category, Order, Pet
from petstore.api.link_header import get_page_url
from petstore.audit import Actor
from petstore.audit.models import AuditEntry
from petstore.backoffice.password_links import create_link
from tests.support.staff import PASSWORD, member_of, signed_in, superuser

LIST = "/admin/backoffice/auditentry/"


@pytest.fixture
def staff(boss: User) -> Client:
    return signed_in(boss, REMOTE_ADDR="192.0.2.7", headers={"X-Request-Id": "try-1"})


def last_entry() -> AuditEntry:
    return AuditEntry.objects.latest("id")


# --- Recording -----------------------------------------------------------------------------------


def test_each_change_is_recorded_once_with_actor_address_and_difference(staff: Client, boss: User) -> None:
    lists = "/admin/inventory/category/"
    staff.post(f"{lists}add/", {"name": "Newts", "description": ""})
    entry, pk = last_entry(), str(Category.objects.get(name="Newts").pk)
    assert (entry.action, entry.before, entry.after["name"]) == ("added", {}, "Newts")
    assert "description" not in entry.after
    for _ in range(2):  # The second time without a change.
        staff.post(f"{lists}{pk}/change/", {"name": "Olms"})
    staff.post(f"{lists}{pk}/change/", {"name": ""})  # Invalid.
    entry = last_entry()
    assert (entry.actor_id, entry.actor_name, entry.action) == (boss.pk, "boss", "changed")
    assert (entry.model, entry.object_id, entry.object_text) == ("inventory.category", pk, "Olms")
    assert (entry.before, entry.after) == ({"name": "Newts"}, {"name": "Olms"})
    assert (entry.address, entry.request_id) == ("192.0.2.7", "try-1")
    staff.post(f"{lists}{pk}/delete/", {"post": "yes"})
    entry = last_entry()
    assert (entry.action, entry.object_id, entry.before["name"]) == ("deleted", pk, "Olms")
    assert AuditEntry.objects.filter(model="inventory.category").count() == 3


def test_list_action_is_recorded_per_row_with_old_and_new_values(
    staff: Client, account: Account, category: Category
) -> None:
    pets = [Pet.objects.create(name=f"Pet {number}", category=category) for number in range(2)]
    orders = [Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="x").pk for pet in pets]
    staff.post("/admin/inventory/order/", {"action": "approve", "_selected_action": orders})
    entries = AuditEntry.objects.filter(model="inventory.order")
    assert {entry.object_id for entry in entries} == {str(order) for order in orders}
    for entry in entries:
        assert (entry.before["status"], entry.after["status"]) == ("placed", "approved")


# --- Secrets -------------------------------------------------------------------------------------


def test_audit_trail_contains_no_secrets(staff: Client, account: Account) -> None:
    text = staff.post("/admin/accounts/apikey/add/", {"account": account.pk, "scopes": ["pets:read"]}).text
    key = ApiKey.objects.get()
    secret = re.search(rf"psk_live_{key.public_id}_(\w+)", text)
    assert secret
    assert last_entry().after["digest"] == "(not shown, but changed)"
    stock = Group.objects.get(name="Stock").pk
    staff.post("/admin/auth/user/add/", {"username": "clerk", "groups": stock})
    clerk = User.objects.get(username="clerk")
    page = staff.get(
        create_link(clerk, by=User.objects.get(username="boss")).removeprefix(get_page_url("")[:-1]),
        follow=True,
    ).request["PATH_INFO"]
    staff.post(page, {"new_password1": PASSWORD, "new_password2": PASSWORD})
    entry = last_entry()
    assert (entry.action, entry.after) == ("changed", {"password": "(not shown, but changed)"})
    stored = repr(list(AuditEntry.objects.values()))
    hashes = User.objects.values_list("password", flat=True)
    sessions = Session.objects.values_list("session_key", flat=True)
    for hidden in (key.digest, secret[1], PASSWORD, *filter(None, hashes), *sessions):
        assert hidden not in stored


# --- Signing in and out --------------------------------------------------------------------------


def attempt(name: str, password: str) -> Client:
    client = Client(REMOTE_ADDR="198.51.100.4")
    client.post("/account/login/", {"login": name, "password": password})
    return client


def test_sign_ins_and_sign_outs_are_recorded_and_failed_sign_ins_stored_separately(boss: User) -> None:
    attempt("boss", "wrong")
    client = attempt("boss", PASSWORD)
    client.post("/account/logout/")
    entries = AuditEntry.objects.order_by("id")
    assert list(entries.values_list("action", "actor_name", "object_text", "address")) == [
        ("signed_in", "boss", "boss", "198.51.100.4"),
        ("signed_out", "boss", "boss", "198.51.100.4"),
    ]


def test_own_password_change_is_recorded(boss: User) -> None:
    client, new = attempt("boss", PASSWORD), "another horse, another battery"
    data = {"oldpassword": "wrong", "password1": new, "password2": new}
    client.post("/account/password/", data)
    assert last_entry().action == "signed_in"
    client.post("/account/password/", data | {"oldpassword": PASSWORD})
    entry, reason = last_entry(), "Changed their own password."
    assert (entry.action, entry.actor_name, entry.reason) == ("changed", "boss", reason)


# --- Append-only ---------------------------------------------------------------------------------


@pytest.fixture
def entry(db: None) -> AuditEntry:
    return AuditEntry.objects.create(action="changed", actor_name="boss", address="192.0.2.1")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE backoffice_auditentry SET reason = 'x'",
        "DELETE FROM backoffice_auditentry",
        "TRUNCATE backoffice_auditentry",
        "TRUNCATE auth_user, backoffice_auditentry CASCADE",
    ],
)
def test_database_rejects_update_and_delete(entry: AuditEntry, statement: str) -> None:
    if "TRUNCATE" in statement and connection.vendor != "postgresql":
        pytest.skip("SQLite has no TRUNCATE.")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        connection.cursor().execute(statement)
    assert AuditEntry.objects.get().reason == ""


def test_no_page_changes_or_deletes_entries(staff: Client, entry: AuditEntry) -> None:
    for page in ("add/", f"{entry.pk}/change/", f"{entry.pk}/delete/"):
        assert staff.post(LIST + page, {"reason": "x", "post": "yes"}).status_code == 403
    staff.post(LIST, {"action": "delete_selected", "_selected_action": entry.pk, "post": "yes"})
    assert AuditEntry.objects.filter(pk=entry.pk, reason="").exists()


def test_entry_outlives_its_actor_and_object(staff: Client) -> None:
    clerk = User.objects.create(username="clerk", is_staff=True)
    signed_in(clerk)
    User.objects.filter(pk=clerk.pk).update(is_active=False)
    staff.post(f"/admin/auth/user/{clerk.pk}/delete/", {"post": "yes"})
    assert not User.objects.filter(username="clerk").exists()
    assert AuditEntry.objects.filter(actor_name="clerk", actor_id=clerk.pk, action="signed_in").exists()


# --- The page ------------------------------------------------------------------------------------


def find(client: Client, **query: Any) -> list[str]:
    response = client.get(LIST, query)
    assert response.status_code == 200
    return [entry.object_text for entry in response.context["cl"].result_list]


@pytest.fixture
def entries(boss: User) -> None:
    rival = superuser("rival")
    actions = [
        (boss, "added", "inventory.pet"),
        (rival, "changed", "inventory.pet"),
        (boss, "changed", "auth.group"),
    ]
    for number, (user, action, model) in enumerate(actions):
        AuditEntry.objects.create(
            actor_id=user.pk, actor_name=user.username, action=action, model=model, object_id=f"{number}",
            object_text=f"thing {number}", request_id=f"try-{number}", address="192.0.2.1",
        )  # fmt: skip


def test_entries_are_listed_newest_first_and_filtered_by_staff_kind_action_object_and_request(
    entries: None, staff: Client, boss: User
) -> None:
    assert find(staff) == ["thing 2", "thing 1", "thing 0"]
    assert find(staff, staff=boss.pk) == ["thing 2", "thing 0"]
    assert find(staff, kind="inventory.pet") == ["thing 1", "thing 0"]
    assert find(staff, action__exact="changed") == ["thing 2", "thing 1"]
    assert find(staff, days="1") == ["thing 2", "thing 1", "thing 0"]
    assert find(staff, days="older") == []
    assert find(staff, q="thing 1") == find(staff, q="try-1") == find(staff, q=" 1 ") == ["thing 1"]
    assert find(staff, staff=boss.pk, kind="auth.group", action__exact="changed") == ["thing 2"]


def test_sign_ins_are_hidden_unless_selected(entries: None, staff: Client) -> None:
    everything = ["boss", "thing 2", "thing 1", "thing 0"]
    assert find(staff, sign_ins="shown") == everything
    assert find(staff, action__exact="signed_in") == ["boss"]
    assert find(staff, sign_ins="nonsense") == everything[1:]
    assert 'href="?sign_ins=shown"' in staff.get(LIST).text


def test_entry_links_actor_and_object(staff: Client, boss: User) -> None:
    kind = Category.objects.create(name="Newts")
    page = f"/admin/inventory/category/{kind.pk}/"
    staff.post(f"{page}change/", {"name": "Olms"})
    for path in (LIST, f"{LIST}{last_entry().pk}/change/"):
        text = staff.get(path).text
        assert f'href="{page}change/">Olms</a>' in text
        assert f'href="/admin/auth/user/{boss.pk}/change/">boss</a>' in text
    assert "name: Newts → Olms" in staff.get(LIST).text
    assert ">category<" in staff.get(LIST).text
    staff.post(f"{page}delete/", {"post": "yes"})
    assert f'href="{page}change/"' not in staff.get(LIST, {"action__exact": "deleted"}).text


def test_entries_about_objects_without_page_are_listed(staff: Client) -> None:
    for model in ("", "x", "inventory.petupload", "a.b.c", "no.such"):
        AuditEntry.objects.create(
            action="added", model=model, object_id="1", object_text="x", address="::1"
        )
    assert find(staff) == ["x"] * 5


def export_rows(client: Client, **query: Any) -> list[dict[str, str]]:
    response = client.get(f"{LIST}export/", query)
    assert response.status_code == 200
    return list(csv.DictReader(io.StringIO(response.getvalue().decode("utf-8-sig"), newline="")))


def test_export_follows_the_filters(entries: None, staff: Client, boss: User) -> None:
    assert [row["object"] for row in export_rows(staff)] == ["thing 2", "thing 1", "thing 0"]
    rows = export_rows(staff, staff=boss.pk, p="0", sign_ins="shown")
    assert [row["object"] for row in rows] == ["audit trail entries", "boss", "thing 2", "thing 0"]
    staff.post("/admin/inventory/category/add/", {"name": "=1+1"})
    row = export_rows(staff)[0]
    assert (row["by"], row["action"], row["object"]) == ("boss", "Added", "'=1+1")
    assert json.loads(row["new values"])["name"] == "=1+1"


def test_export_is_recorded_with_filters_and_masked_search_term(staff: Client, category: Category) -> None:
    export_rows(staff, action__exact="added", q="Rex")
    assert (last_entry().action, last_entry().object_text) == ("exported", "audit trail entries")
    assert last_entry().after == {"filters": "action__exact=added&q=(not shown)"}
    staff.post("/admin/inventory/pet/export/?status__exact=sold", {"format": "csv"}).getvalue()
    assert (last_entry().action, last_entry().object_text) == ("exported", "pets")
    assert last_entry().after == {"filters": "status__exact=sold"}
    assert "filters: status__exact=sold" in staff.get(LIST).text


def test_changes_are_described_in_plain_words(staff: Client, account: Account) -> None:
    staff.post("/admin/auth/user/add/", {"username": "kim", "groups": Group.objects.get(name="Viewer").pk})
    text = staff.get(LIST).text
    assert "role: Viewer" in text
    assert "may sign in: yes" in text
    kim = User.objects.get(username="kim")
    page = f"/admin/auth/user/{kim.pk}/change/"
    staff.post(page, {"username": "kim", "groups": Group.objects.get(name="Support").pk})
    text = staff.get(LIST).text
    assert "role: Viewer → Support" in text
    assert "may sign in: yes → no" in text
    data = {"name": account.name, "plan": account.plan_id, "contact_email": "kim@example.com"}
    staff.post(f"/admin/accounts/account/{account.pk}/change/", data)
    text = staff.get(LIST).text
    assert "contact email: changed (value hidden)" in text
    assert "updated at" not in text


def test_list_names_keys_and_accounts_with_a_constant_number_of_queries(
    staff: Client, account: Account
) -> None:
    query_counts = []
    for name in ("Till", "Depot"):
        ApiKey.objects.issue(account, name=name, key_scopes=["pets:read"], by=Actor("tests"))
        with CaptureQueriesContext(connection) as queries:
            text = staff.get(LIST).text
        query_counts.append(len(queries))
        assert f"({name}, {account.name})" in text
    assert "scopes: pets:read" in text
    assert query_counts[0] == query_counts[1]


def test_too_large_export_is_rejected_with_advice(
    entries: None, staff: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("petstore.backoffice.admin.MAX_EXPORTED", 2)
    page = staff.get(f"{LIST}export/", {"days": "1"}, follow=True)
    assert "Narrow it with filters" in page.text
    assert page.redirect_chain == [(f"{LIST}?days=1", 302)]
    assert len(export_rows(staff, kind="inventory.pet")) == 2


def test_invalid_filter_does_not_break_the_export(staff: Client) -> None:
    for query in ({"nothing": "1"}, {"action__exact": "\0"}, {"q": "x" * 251}):
        assert staff.get(f"{LIST}export/", query).status_code in {302, 400}


def test_values_are_escaped(staff: Client) -> None:
    staff.post("/admin/inventory/category/add/", {"name": "<script>alert(1)</script>"})
    for path in (LIST, f"{LIST}{last_entry().pk}/change/"):
        text = staff.get(path).text
        assert "<script>alert(1)" not in text
        assert "&lt;script&gt;alert(1)" in text


def test_long_trail_is_paginated_without_count(staff: Client, boss: User) -> None:
    AuditEntry.objects.bulk_create(
        AuditEntry(actor_id=boss.pk, action="changed", address="192.0.2.1", object_text=f"{number}")
        for number in range(1200)
    )
    with CaptureQueriesContext(connection) as queries:
        page = staff.get(LIST, {"before": AuditEntry.objects.earliest("id").pk + 100})
    assert len(page.context["cl"].result_list) == 50
    statements = [query["sql"] for query in queries if 'FROM "backoffice_auditentry"' in query["sql"]]
    assert len(statements) == 2
    assert not any("COUNT(" in sql for sql in statements)
    assert all("LIMIT" in sql for sql in statements)


def test_only_owners_view_the_audit_trail(db: None) -> None:
    groups = ("Viewer", "Support", "Stock", "Owner")
    for page in (LIST, f"{LIST}export/"):
        responses = [signed_in(member_of(group, name=group + page)).get(page) for group in groups]
        assert [response.status_code for response in responses] == [403, 403, 403, 200]
        responses[-1].getvalue()  # Closes the file.


# --- Completeness --------------------------------------------------------------------------------


def test_one_action_is_recorded_once(
    staff: Client, account: Account, key: ApiKey, category: Category
) -> None:
    pet = Pet.objects.create(name="Rex", category=category)
    order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="x")
    requests: list[tuple[str, dict[str, Any]]] = [
        (f"accounts/apikey/{key.pk}/change/", {"name": "Tills"}),
        (f"accounts/apikey/{key.pk}/rotate/", {}),
        (f"accounts/apikey/{key.pk}/revoke/", {"reason": "Leaked"}),
        (f"inventory/order/{order.pk}/act/approve/", {}),
        ("inventory/category/add/", {"name": "Newts"}),
    ]
    for path, data in requests:
        before = AuditEntry.objects.count()
        assert staff.post(f"/admin/{path}", data).status_code < 400
        issued = path.endswith("rotate/")  # A second action: the replacement.
        assert AuditEntry.objects.count() == before + 1 + issued, path
    assert not LogEntry.objects.exists()


def test_object_history_shows_actor_change_and_reason(staff: Client, key: ApiKey, account: Account) -> None:
    data = {"reason": "They shrink", "choice": "free"}
    staff.post(f"/admin/accounts/account/{account.pk}/change-plan/", data)
    staff.post(f"/admin/accounts/apikey/{key.pk}/revoke/", {"reason": "Leaked"})
    history = staff.get(f"/admin/accounts/account/{account.pk}/history/").text
    assert "Changed" in history
    assert "by boss" in history
    assert "plan: business → free" in history
    history = staff.get(f"/admin/accounts/apikey/{key.pk}/history/").text
    assert history.index("Revoked") < history.index("Issued")
    assert "Leaked" in history
    assert "by tests" in history
    assert f"revoked at: none → {timezone.now():%Y-%m-%d}" in history


def test_object_history_requires_permission_to_view_the_object(key: ApiKey) -> None:
    path = f"/admin/accounts/apikey/{key.pk}/history/"
    assert signed_in(member_of("Viewer")).get(path).status_code == 200
    assert signed_in(member_of("Stock")).get(path).status_code == 403


# --- Key events of the previous version ----------------------------------------------------------


def insert_old_event(key: ApiKey, action: str, at: str) -> None:
    """Write a key event as the previous version does."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO accounts_keyevent (key_id, action, at, actor_id, actor_name, reason)"
            " VALUES (%s, %s, %s, NULL, 'ann', 'Old')",
            [key.pk, action, at],
        )


def test_entries_of_the_previous_version_appear_in_the_trail_during_an_upgrade(key: ApiKey) -> None:
    insert_old_event(key, "banned", "2026-11-22 10:00:00+00:00")
    entry = key.audit_entries.latest("id")
    values = (entry.action, entry.actor_name, entry.reason, entry.object_text, f"{entry.at:%H:%M}")
    assert values == ("banned", "ann", "Old", key.public_id, "10:00")
    assert (entry.before, entry.after, entry.address) == ({}, {}, "0.0.0.0")
