"""The audit trail records every change by staff with old and new values, and is append-only."""

import csv
import io
import json
import re
from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db import DatabaseError, connection, transaction
from django.db.models import BooleanField, DateTimeField, ForeignKey, IntegerField, Model
from django.test import Client
from django.utils.html import strip_tags

from accounts.models import Account, ApiKey, PlanCode, WebhookEndpoint
from inventory.models import Category, Order
from petstore.api.link_header import get_page_url
from petstore.audit import SECRET_FIELDS, Actor
from petstore.audit.models import AuditEntry
from petstore.backoffice.history import FIELD_LABELS, OMITTED_FIELDS, extra_fields
from petstore.sign_in.password_links import create_link
from tests.support.staff import PASSWORD, clerk_with, member_of, signed_in, superuser

LIST, TABLE = "/admin/backoffice/auditentry/", "backoffice_auditentry"


@pytest.fixture
def staff(boss: User) -> Client:
    return signed_in(boss, REMOTE_ADDR="192.0.2.7", headers={"X-Request-Id": "try-1"})


def last_entry() -> AuditEntry:
    return AuditEntry.objects.latest("id")


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
    assert not LogEntry.objects.exists()


def test_audit_trail_contains_no_secrets(staff: Client, account: Account) -> None:
    text = staff.post("/admin/accounts/apikey/add/", {"account": account.pk, "scopes": ["pets:read"]}).text
    key = ApiKey.objects.get()
    secret = re.search(rf"psk_live_{key.public_id}_(\w+)", text)
    assert secret
    assert last_entry().after["digest"] == "(not shown, but changed)"
    stock = Group.objects.get(name="Stock").pk
    staff.post("/admin/auth/user/add/", {"username": "clerk", "groups": stock})
    clerk = User.objects.get(username="clerk")
    link = create_link(clerk, by=User.objects.get(username="boss")).removeprefix(get_page_url("")[:-1])
    page = staff.get(link, follow=True).request["PATH_INFO"]
    staff.post(page, {"password1": PASSWORD, "password2": PASSWORD})
    entry = last_entry()
    assert (entry.action, entry.after) == ("changed", {"password": "(not shown, but changed)"})
    stored = repr(list(AuditEntry.objects.values()))
    hashes = User.objects.values_list("password", flat=True)
    sessions = Session.objects.values_list("session_key", flat=True)
    for hidden in (key.digest, secret[1], PASSWORD, *filter(None, hashes), *sessions):
        assert hidden not in stored


def attempt(name: str, password: str) -> Client:
    client = Client(REMOTE_ADDR="198.51.100.4")
    client.post("/account/login/", {"login": name, "password": password})
    return client


def test_sign_ins_sign_outs_and_new_passwords_of_staff_are_recorded(boss: User) -> None:
    attempt("boss", "wrong")  # Failed sign-ins are stored separately.
    client, new = attempt("boss", PASSWORD), "another horse, another battery"
    data = {"oldpassword": "wrong", "password1": new, "password2": new}
    client.post("/account/password/", data)
    client.post("/account/password/", data | {"oldpassword": PASSWORD})
    client.post("/account/logout/")
    fields = ("action", "actor_name", "object_text", "address", "reason")
    assert list(AuditEntry.objects.order_by("id").values_list(*fields)) == [
        ("signed_in", "boss", "boss", "198.51.100.4", ""),
        ("changed", "boss", "boss", "198.51.100.4", "Changed their own password."),
        ("signed_out", "boss", "boss", "198.51.100.4", ""),
    ]


@pytest.fixture
def entry(db: None) -> AuditEntry:
    return AuditEntry.objects.create(action="changed", actor_name="boss", address="192.0.2.1")


STATEMENTS = ["UPDATE backoffice_auditentry SET reason = 'x'", "DELETE FROM backoffice_auditentry"]
if connection.vendor == "postgresql":  # SQLite has no TRUNCATE.
    STATEMENTS += [f"TRUNCATE {tables}" for tables in (TABLE, f"auth_user, {TABLE} CASCADE")]


def test_database_rejects_update_and_delete(entry: AuditEntry) -> None:
    for statement in STATEMENTS:
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            connection.cursor().execute(statement)
    assert AuditEntry.objects.get().reason == ""


def test_no_page_changes_or_deletes_entries(staff: Client, entry: AuditEntry) -> None:
    for page in ("add/", f"{entry.pk}/change/", f"{entry.pk}/delete/"):
        assert staff.post(LIST + page, {"reason": "x", "post": "yes"}).status_code == 403
    staff.post(LIST, {"action": "delete_selected", "_selected_action": entry.pk, "post": "yes"})
    assert AuditEntry.objects.filter(pk=entry.pk, reason="").exists()


def find(client: Client, **query: Any) -> list[str]:
    response = client.get(LIST, query)
    assert response.status_code == 200
    return [entry.object_text for entry in response.context["cl"].result_list]


@pytest.fixture
def entries(boss: User) -> None:
    actions = ("added", "inventory.pet"), ("changed", "inventory.pet"), ("changed", "auth.group")
    for number, (action, model) in enumerate(actions):
        user = boss if number != 1 else superuser("rival")
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
    assert find(staff, days="older") == []
    assert find(staff, q="thing 1") == find(staff, q="try-1") == find(staff, q=" 1 ") == ["thing 1"]
    assert find(staff, staff=boss.pk, kind="auth.group", action__exact="changed") == ["thing 2"]


def test_entry_links_an_existing_object_by_its_escaped_name(staff: Client) -> None:
    kind = Category.objects.create(name="Newts")
    page = f"/admin/inventory/category/{kind.pk}/"
    staff.post(f"{page}change/", {"name": "<b>Olms"})
    for path in (LIST, f"{LIST}{last_entry().pk}/change/"):
        text = staff.get(path).text
        assert f'href="{page}change/">&lt;b&gt;Olms</a>' in text
        assert "<b>Olms" not in text
    staff.post(f"{page}delete/", {"post": "yes"})
    assert f'href="{page}change/"' not in staff.get(LIST, {"action__exact": "deleted"}).text
    for model in ("", "x", "inventory.petupload", "a.b.c", "no.such"):
        values = {"object_id": "1", "object_text": "x", "address": "::1"}
        AuditEntry.objects.create(action="added", model=model, **values)
    assert find(staff)[:5] == ["x"] * 5


def export_rows(client: Client, **query: Any) -> list[dict[str, str]]:
    response = client.get(f"{LIST}export/", query)
    assert response.status_code == 200
    return list(csv.DictReader(io.StringIO(response.getvalue().decode("utf-8-sig"), newline="")))


def test_export_follows_the_filters(
    entries: None, staff: Client, boss: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [row["object"] for row in export_rows(staff)] == ["thing 2", "thing 1", "thing 0"]
    rows = export_rows(staff, staff=boss.pk, p="0", sign_ins="shown")
    assert [row["object"] for row in rows] == ["audit trail entries", "boss", "thing 2", "thing 0"]
    staff.post("/admin/inventory/category/add/", {"name": "=1+1"})
    row = export_rows(staff)[0]
    assert (row["by"], row["action"], row["object"]) == ("boss", "Added", "'=1+1")
    assert json.loads(row["new values"])["name"] == "=1+1"
    for query in ({"nothing": "1"}, {"action__exact": "\0"}, {"q": "x" * 251}):
        assert staff.get(f"{LIST}export/", query).status_code in {302, 400}
    monkeypatch.setattr("petstore.backoffice.admin.MAX_EXPORTED", 2)
    assert staff.get(f"{LIST}export/", {"days": "1"})["Location"] == f"{LIST}?days=1"
    assert len(export_rows(staff, kind="inventory.pet")) == 2


def test_export_is_recorded_with_filters_and_masked_search_term(staff: Client, category: Category) -> None:
    export_rows(staff, action__exact="added", q="Rex")
    assert (last_entry().action, last_entry().object_text) == ("exported", "audit trail entries")
    assert last_entry().after == {"filters": "action__exact=added&q=(not shown)"}
    staff.post("/admin/inventory/pet/export/?status__exact=sold", {"format": "csv"}).getvalue()
    assert (last_entry().action, last_entry().object_text) == ("exported", "pets")
    assert last_entry().after == {"filters": "status__exact=sold"}


def test_object_history_shows_actor_change_and_reason(staff: Client, key: ApiKey) -> None:
    staff.post(f"/admin/accounts/apikey/{key.pk}/revoke/", {"reason": "Leaked"})
    history = staff.get(f"/admin/accounts/apikey/{key.pk}/history/").text
    assert history.index("Revoked") < history.index("Issued")
    assert all(part in history for part in ("by boss", "by tests"))
    assert history.count("Leaked") == 1
    assert signed_in(member_of("Stock")).get(f"/admin/accounts/apikey/{key.pk}/history/").status_code == 403


AUDITED: set[Any] = {
    *(model for model, pages in admin.site._registry.items() if getattr(pages, "can_change", False)),
    WebhookEndpoint,
}


@pytest.mark.parametrize("model", sorted(AUDITED, key=str))
def test_changes_show_no_raw_reference_code_or_time(
    staff: Client, order: Order, key: ApiKey, model: type[Model]
) -> None:
    label, raw, shown = model._meta.label_lower, {}, {}
    rows: dict[Any, Any] = {
        type(row): row for row in (order, order.pet, order.pet.category, key, key.account, key.account.plan)
    }
    fields = {field.name: field for field in model._meta.fields}
    fields |= {name: field for (owner, name), field in extra_fields.items() if owner == label}
    for name in fields.keys() - OMITTED_FIELDS - SECRET_FIELDS:
        field = fields[name]
        if isinstance(field, ForeignKey):
            row = rows.get(field.related_model)
            raw[name] = row.pk if row else 7
            shown[name] = (row and getattr(row, "audit_description", str(row))) or f"{name} 7 (deleted)"
        elif field.choices:
            raw[name], shown[name] = field.flatchoices[-1]
        elif isinstance(field, BooleanField):
            raw[name], shown[name] = True, "yes"
        elif isinstance(field, DateTimeField):
            raw[name], shown[name] = "2026-11-03T06:05:07.1+00:00", "2026-11-03 06:05 UTC"
        elif isinstance(field, IntegerField):
            raw[name], shown[name] = 1234567, "1,234,567"
    unset = dict.fromkeys(raw)
    for before, after in ((unset, raw), ({}, raw), (raw, {})):
        entry = AuditEntry.objects.create(
            action="changed", model=label, before=before, after=after, address="::1"
        )
        page = staff.get(f"{LIST}{entry.pk}/change/").text.replace("<br>", "\n")
        lines = {line.strip() for line in unescape(strip_tags(page)).splitlines()}
        for name, text in shown.items():
            field_label = FIELD_LABELS.get(name) or getattr(fields[name], "verbose_name", None) or name
            assert f"{field_label}: {'none → ' if before and after else ''}{text}" in lines


def test_changes_link_objects_that_the_user_may_view(staff: Client, account: Account) -> None:
    account.change_plan(PlanCode.PRO, None, None, reason="Paid", by=Actor("tests"))
    page = f"/admin/accounts/account/{account.pk}/history/"
    linked = '<a class="office-link" href="/admin/accounts/plan/pro/change/">Pro</a>'
    assert f"→ {linked}" in staff.get(page).text
    assert linked in staff.get(LIST).text
    assert "→ Pro<" in clerk_with("view_account").get(page).text


def test_users_of_customers_are_called_members(staff: Client, boss: User, account: Account) -> None:
    kim = User.objects.create_user("kim")
    account.require_second_factor(required=True, by=Actor("kim", kim.pk))
    text = staff.get(LIST).text
    assert f"/admin/auth/user/{kim.pk}/" not in text
    assert "member kim" in text
