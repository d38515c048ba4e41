"""Staff and customers share the table of users. Only explicit actions turn one into the other (D46)."""

from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from petstore.audit.models import AuditEntry
from tests.pages.sign_in.test_password_links import extract_link
from tests.support.staff import PASSWORD, member_of, signed_in, superuser

pytestmark = pytest.mark.same_on_both
STAFF = "/admin/auth/user/"


@pytest.fixture
def customer(db: None) -> User:
    return User.objects.create_user("kim", password=PASSWORD)


def make_staff(client: Client, name: str = "kim", role: str = "Viewer") -> Any:
    group = Group.objects.get(name=role).pk
    return client.post(f"{STAFF}make-staff/", {"username": name, "groups": group, "reason": "Joins us"})


def test_customers_have_no_staff_pages(customer: User, staff: Client) -> None:
    before = User.objects.filter(pk=customer.pk).values().get()
    sent = {"username": "taken", "reason": "x", "post": "yes", "is_active": "on", "is_staff": "on"}
    for page in ("change", "password", "reset-two-factor", "remove-from-staff", "delete", "history"):
        path = f"{STAFF}{customer.pk}/{page}/"
        assert staff.get(path).status_code == staff.post(path, sent).status_code == 404
    assert User.objects.filter(pk=customer.pk).values().get() == before


def test_lists_of_staff_omit_customers(customer: User, staff: Client) -> None:
    member_of("Viewer", name="kim-of-staff")
    assert [user.username for user in staff.get(f"{STAFF}?q=kim").context["cl"].result_list] == [
        "kim-of-staff"
    ]
    assert "kim-of-staff" in (found := staff.post("/admin/search/", {"s": "kim"}).text)
    assert f"/{customer.pk}/change/" not in found
    assert ">kim</" not in staff.get("/admin/backoffice/auditentry/").text


def test_customer_cannot_open_the_back_office(customer: User) -> None:
    client = signed_in(customer)
    for page in ("/admin/", STAFF, "/admin/search/"):
        response: Any = client.get(page, follow=True)
        assert response.status_code == 403
        assert "You are signed in as kim, who has no access to the back office." in response.text
    response = Client().post("/account/login/", {"login": "kim", "password": PASSWORD})
    assert response.url == "/account/"


def test_customer_promoted_to_staff_chooses_a_new_password(customer: User) -> None:
    thief = signed_in(customer)
    User.objects.filter(pk=customer.pk).update(is_superuser=True)  # Has no effect without is_staff.
    customer.user_permissions.add(Permission.objects.get(codename="delete_pet"))
    for verified in (False, True):
        email = f"kim-{verified}@example.com"
        EmailAddress.objects.create(user=customer, email=email, verified=verified)
    link = extract_link(make_staff(signed_in(superuser())).text)
    promoted = User.objects.get(pk=customer.pk)
    assert (promoted.is_staff, promoted.is_superuser) == (True, False)
    assert (promoted.has_usable_password(), promoted.user_permissions.exists()) == (False, False)
    assert [group.name for group in promoted.groups.all()] == ["Viewer"]
    assert EmailAddress.objects.get().verified
    assert thief.get("/admin/").status_code == 302
    entry = AuditEntry.objects.get(action="made_staff")
    assert (entry.actor_name, entry.object_text, entry.reason) == ("boss", "kim", "Joins us")
    assert (entry.before["is_staff"], entry.after["is_staff"]) == (False, True)
    assert link.split("/")[-2] not in repr(list(AuditEntry.objects.values()))


def test_only_existing_customers_are_made_staff(customer: User, staff: Client, boss: User) -> None:
    for name in ("unknown", "boss", "KIM"):
        assert "Check the spelling" in make_staff(staff, name).text
    User.objects.filter(pk=customer.pk).update(is_active=False)
    assert "Check the spelling" in make_staff(staff).text
    assert not User.objects.filter(username="kim", is_staff=True).exists()
    assert staff.post(f"{STAFF}make-staff/", {"username": "kim", "reason": "x"}).status_code == 200


def test_promotion_cannot_grant_more_than_the_editor_has(customer: User) -> None:
    clerk = User.objects.create(username="personnel", is_staff=True)
    clerk.user_permissions.set(
        Permission.objects.filter(codename__in=["view_user", "add_user", "view_pet"])
    )
    assert make_staff(signed_in(clerk), role="Owner").status_code == 200
    assert make_staff(signed_in(member_of("Support"))).status_code == 403
    customer.refresh_from_db()
    assert not customer.is_staff


def test_removed_member_of_staff_can_still_sign_in_without_permissions(db: None, staff: Client) -> None:
    clerk = member_of("Owner", name="clerk", is_superuser=True)
    clerk.user_permissions.add(Permission.objects.get(codename="delete_pet"))
    client = signed_in(clerk)
    assert client.get(STAFF).status_code == 200
    assert staff.post(f"{STAFF}{clerk.pk}/remove-from-staff/", {"reason": "Left us"})["Location"] == STAFF
    removed = User.objects.get(pk=clerk.pk)
    assert (removed.is_active, removed.is_staff, removed.is_superuser) == (True, False, False)
    assert not removed.groups.exists()
    assert not removed.user_permissions.exists()
    assert client.get(STAFF).status_code == 302
    assert AuditEntry.objects.get(action="removed_from_staff").reason == "Left us"
