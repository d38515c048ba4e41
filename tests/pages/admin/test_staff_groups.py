"""Permissions of each group of staff over HTTP, and protection against escalation."""

import re
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from accounts.events.sequencing import sequence_all
from accounts.models import Account, ApiKey, Event
from inventory.models import Category, Order, Pet
from petstore.backoffice.site import PetstoreAdminSite
from petstore.health.models import Incident
from tests.support.staff import member_of, signed_in, superuser

pytestmark = pytest.mark.same_on_both
GROUPS = ("Viewer", "Support", "Stock", "Owner")
NO_GROUP = "no group"
CUSTOMERS = {"accounts/account", "accounts/apikey", "accounts/plan", "accounts/event"}
SHOP = {"inventory/pet", "inventory/category", "inventory/order"}
STAFF = {"auth/user", "auth/group"}
INCIDENTS = {"health/incident"}
LISTS = sorted(CUSTOMERS | SHOP | INCIDENTS | STAFF | {"backoffice/auditentry"})

VISIBLE = {
    "Viewer": CUSTOMERS | SHOP | INCIDENTS,
    "Support": CUSTOMERS | SHOP | INCIDENTS,
    "Stock": SHOP,
    "Owner": CUSTOMERS | SHOP | INCIDENTS | STAFF | {"backoffice/auditentry"},
    NO_GROUP: set(),
}
VISIBLE_PAGES = {
    "accounts/rejection": ("Viewer", "Support", "Owner"),
    "backoffice/failedsignin": ("Owner",), "backoffice/auditentry/export": ("Owner",),
}  # fmt: skip
# The groups that may use each page for changes or exports. `{}` is the ID of a row.
PAGES_BY_GROUPS = {
    ("Support", "Owner"): """
        accounts/account/add accounts/account/{}/change accounts/account/{}/suspend
        accounts/account/{}/lift-suspension accounts/account/{}/change-plan accounts/account/{}/invite
        accounts/account/{}/change-role/1 accounts/account/{}/remove/1 accounts/account/{}/withdraw/1
        accounts/account/{}/disable-webhook/1 accounts/account/{}/enable-webhook/1 accounts/apikey/add
        accounts/apikey/{}/change accounts/apikey/{}/revoke accounts/apikey/{}/rotate
        accounts/apikey/{}/unban health/incident/add health/incident/{}/change
    """,
    ("Owner",): """
        accounts/account/{}/delete accounts/plan/{}/change auth/user/add auth/user/{}/change
        auth/user/{}/password auth/user/{}/reset-two-factor auth/user/{}/remove-from-staff
        auth/user/make-staff
        auth/user/{}/delete auth/group/add auth/group/{}/change auth/group/{}/delete
        health/incident/{}/delete
    """,
    (): """
        accounts/apikey/{}/delete accounts/plan/add accounts/plan/{}/delete accounts/event/add
        accounts/event/{}/change accounts/event/{}/delete inventory/order/add inventory/order/{}/delete
        backoffice/auditentry/add backoffice/auditentry/{}/change backoffice/auditentry/{}/delete
    """,
    ("Stock", "Owner"): """
        inventory/pet/add inventory/pet/{}/change inventory/pet/{}/delete inventory/category/add
        inventory/category/{}/change inventory/category/{}/delete inventory/order/{}/change
        inventory/order/{}/act/approve
        inventory/pet/import inventory/pet/import/template inventory/pet/process_import
    """,
    GROUPS: "inventory/pet/export",
}
ALLOWED_GROUPS = {page: groups for groups, pages in PAGES_BY_GROUPS.items() for page in pages.split()}


@pytest.fixture
def rows(account: Account, key: ApiKey, category: Category) -> dict[str, Any]:
    """The ID of a row of each model."""
    pet = Pet.objects.create(name="Rex", category=category)
    order = Order.objects.place(account_id=account.pk, pet_id=pet.pk, by="tests")
    clerk = User.objects.create(username="clerk", is_staff=True, is_active=False)
    sequence_all()
    entry = apps.get_model("backoffice", "AuditEntry").objects.create(action="added", address="192.0.2.1")
    return {
        "accounts/account": account.pk, "accounts/apikey": key.pk, "accounts/plan": "free",
        "inventory/pet": pet.pk, "inventory/category": category.pk, "inventory/order": order.pk,
        "auth/user": clerk.pk, "auth/group": Group.objects.get(name="Viewer").pk,
        "health/incident": Incident.objects.create(title="Outage").pk,
        "backoffice/auditentry": entry.pk, "accounts/event": Event.objects.latest("pk").pk,
    }  # fmt: skip


def build_path(page: str, rows: dict[str, Any]) -> str:
    return f"/admin/{page.format(rows['/'.join(page.split('/')[:2])])}/"


@pytest.mark.parametrize("group", VISIBLE)
def test_group_has_exactly_its_pages_and_actions(rows: dict[str, Any], group: str) -> None:
    client = signed_in(member_of(*{group} & {*GROUPS}, name=group))
    statuses = {model: client.get(f"/admin/{model}/").status_code for model in LISTS}
    assert statuses == {model: 200 if model in VISIBLE[group] else 403 for model in LISTS}
    text = client.get("/admin/").text
    assert {model for model in LISTS if f'href="/admin/{model}/"' in text} == VISIBLE[group]
    for page, groups in VISIBLE_PAGES.items():
        response: Any = client.get(f"/admin/{page}/")
        assert response.status_code == (200 if group in groups else 403), page
        b"".join(response)  # Closes the file.
    for page, groups in ALLOWED_GROUPS.items():
        status = client.post(build_path(page, rows), {}).status_code
        assert status in ({200, 302, 404} if group in groups else {403}), (group, page, status)


def test_bulk_action_needs_the_permission_of_its_page(rows: dict[str, Any]) -> None:
    sent = {"action": "approve", "_selected_action": rows["inventory/order"]}
    for group, status in (("Support", "placed"), ("Stock", "approved")):
        signed_in(member_of(group)).post("/admin/inventory/order/", sent)
        assert Order.objects.get().status == status


def edit(client: Client, user: User, **fields: Any) -> Any:
    """Submit the form of a member of staff with some fields changed."""
    sent: dict[str, Any] = {
        "username": user.username, "is_active": "on",
        "groups": ",".join(str(group.pk) for group in user.groups.order_by("pk")),
        "user_permissions": [permission.pk for permission in user.user_permissions.all()],
    }  # fmt: skip
    sent |= fields
    return client.post(
        f"/admin/auth/user/{user.pk}/change/", {name: value for name, value in sent.items() if value != ""}
    )


def test_owner_edits_and_deactivates_a_colleague(db: None) -> None:
    clerk, client = member_of("Viewer", name="clerk"), signed_in(member_of("Owner"))
    page = f"/admin/auth/user/{clerk.pk}/"
    stock = Group.objects.get(name="Stock")
    assert edit(client, clerk, groups=stock.pk, is_superuser="on").status_code == 302
    clerk = User.objects.get(pk=clerk.pk)
    assert (clerk.is_staff, clerk.is_superuser) == (True, False)
    assert clerk.has_perm("inventory.change_pet")
    colleagues = client.get("/admin/auth/user/", {"role": stock.pk}).context["cl"].result_list
    assert list(colleagues) == [clerk]
    assert client.post(f"{page}delete/", {"post": "yes"}).status_code == 403
    edit(client, clerk, is_active="")
    clerk.refresh_from_db()
    assert (clerk.is_active, clerk.is_staff) == (False, True)
    assert f"{page}delete/" in client.get(f"{page}change/").text
    assert client.post(f"{page}delete/", {"post": "yes"}).status_code == 302
    assert not User.objects.filter(pk=clerk.pk).exists()


def test_new_colleague_needs_a_role_and_only_a_superuser_makes_a_superuser(db: None) -> None:
    client = signed_in(superuser())
    client.post("/admin/auth/user/add/", {"username": "kim"})
    assert not User.objects.filter(username="kim").exists()
    clerk = User.objects.create(username="clerk", is_staff=True)
    edit(client, clerk, is_superuser="on")
    clerk.refresh_from_db()
    assert clerk.is_superuser


def test_owner_cannot_change_a_superuser_or_their_own_group(db: None) -> None:
    boss, client, owners = superuser(), signed_in(member_of("Owner")), Group.objects.get(name="Owner")
    before = User.objects.filter(pk=boss.pk).values().get(), owners.permissions.count()
    sent = {"username": "taken", "name": "Gone", "post": "yes", "reason": "Mine now."}
    verbs = ("change", "password", "delete", "reset-two-factor", "remove-from-staff")
    pages = [f"user/{boss.pk}/{verb}" for verb in verbs]
    pages += [f"group/{owners.pk}/{page}" for page in ("change", "delete")]
    assert {client.post(f"/admin/auth/{page}/", sent).status_code for page in pages} == {403}
    assert (User.objects.filter(pk=boss.pk).values().get(), owners.permissions.count()) == before


def create_personnel() -> User:
    """A clerk who may edit staff and groups, and view pets."""
    clerk = User.objects.create(username="personnel", is_staff=True)
    names = "view_user add_user change_user delete_user view_group add_group change_group view_pet".split()
    clerk.user_permissions.set(Permission.objects.filter(codename__in=names))
    return clerk


def test_staff_cannot_grant_permissions_or_groups_they_lack(db: None) -> None:
    clerk = User.objects.create(username="clerk", is_staff=True)
    missing = Permission.objects.get(codename="change_plan")
    owned = Permission.objects.get(codename="view_pet")
    client = signed_in(create_personnel())
    clerk.user_permissions.add(owned)
    assert edit(client, clerk, user_permissions=[owned.pk, missing.pk]).status_code == 200
    assert list(clerk.user_permissions.all()) == [owned]
    assert edit(client, clerk, groups=Group.objects.get(name="Owner").pk).status_code == 200
    assert not clerk.groups.exists()
    assert edit(client, clerk, user_permissions=[]).status_code == 302
    assert not clerk.user_permissions.exists()
    group = Group.objects.create(name="Mine")
    sent = {"name": "Mine", "permissions": [missing.pk]}
    assert client.post(f"/admin/auth/group/{group.pk}/change/", sent).status_code == 200
    assert not group.permissions.exists()


def test_staff_cannot_edit_more_privileged_colleagues_or_groups(db: None) -> None:
    client, owner = signed_in(create_personnel()), member_of("Owner", is_active=False)
    assert edit(client, owner, username="taken").status_code == 403
    assert User.objects.filter(username="owner").exists()
    owners = Group.objects.get(name="Owner")
    assert client.post(f"/admin/auth/group/{owners.pk}/change/", {"name": "Gone"}).status_code == 403
    assert owners.permissions.exists()
    support = member_of("Support").groups.get()
    page = signed_in(superuser()).get(f"/admin/auth/group/{support.pk}/delete/").text
    assert "Delete the role Support?" in page
    assert "1 member of staff loses this role." in page


@pytest.mark.parametrize("role", ["owner", "superuser"])
def test_staff_cannot_drop_their_own_permissions(db: None, role: str) -> None:
    user = superuser() if role == "superuser" else member_of("Owner")
    client = signed_in(user)
    edit(client, user, is_active="", is_staff="", is_superuser="", groups="", first_name="Kim")
    fresh = User.objects.get(pk=user.pk)
    assert fresh.first_name == "Kim"
    assert (fresh.is_active, fresh.is_staff, fresh.is_superuser) == (True, True, user.is_superuser)
    assert fresh.groups.count() == user.groups.count()
    for verb in ("delete", "reset-two-factor", "remove-from-staff", "password"):
        sent = {"post": "yes", "reason": "x"}
        assert client.post(f"/admin/auth/user/{user.pk}/{verb}/", sent).status_code == 403
    assert User.objects.get(pk=user.pk).is_staff


def test_staff_cannot_edit_others_after_losing_permissions_concurrently(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    boss, rival = superuser(), superuser("rival")
    client = signed_in(boss)

    def grant_access_and_dismiss(site: Any, request: Any) -> bool:
        User.objects.filter(pk=boss.pk).update(is_staff=False)
        return True

    monkeypatch.setattr(PetstoreAdminSite, "has_permission", grant_access_and_dismiss)
    assert edit(client, rival, is_active="").status_code == 403
    rival.refresh_from_db()
    assert rival.is_staff


def test_role_form_offers_page_permissions_and_keeps_others(db: None) -> None:
    viewer = Group.objects.get(name="Viewer")
    client, path = signed_in(superuser()), f"/admin/auth/group/{viewer.pk}/change/"
    found = re.findall(r'<span class="truncate">(.*?)</span>', client.get(path).text, re.DOTALL)
    labels = {" ".join(label.split()) for label in found}
    assert "View orders" in labels
    assert not {"Delete orders", "Delete API keys", "Change audit trail entries"} & labels
    names = ("view_dailyusage", "change_pet")
    hidden, chosen = (Permission.objects.get(codename=name) for name in names)
    assert viewer.permissions.contains(hidden)
    client.post(path, {"name": "Viewer", "permissions": [chosen.pk]})
    kept = set(viewer.permissions.all())
    assert {hidden, chosen} <= kept
    assert not viewer.permissions.filter(codename="view_pet").exists()
