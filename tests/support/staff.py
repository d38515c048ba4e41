"""Members of staff, for tests of the back office."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, Permission, User
from django.db.models import Model
from django.test import Client
from django.urls import reverse

PASSWORD = "correct horse battery staple"
CONFIRMED = {"confirmed": "1"}  # Submits a confirmation page.


def member_of(*groups: str, name: str = "", **options: Any) -> User:
    user = User.objects.create(username=name or "-".join(groups).lower(), is_staff=True, **options)
    user.groups.set(Group.objects.filter(name__in=groups))
    assert user.groups.count() == len(groups)
    return user


def superuser(name: str = "boss") -> User:
    return User.objects.create(username=name, is_staff=True, is_superuser=True)


def signed_in(user: User, **options: Any) -> Client:
    """A signed-in client, which gets a 500 page like a browser instead of the exception."""
    client = Client(raise_request_exception=False, **options)
    client.force_login(user)
    return client


def enter_password(name: str = "boss") -> Client:
    """Sign in with PASSWORD like a browser. The client may still lack the second factor."""
    client = Client(raise_request_exception=False)
    response = client.post("/account/login/", {"login": name, "password": PASSWORD, "next": "/admin/"})
    assert response.status_code == 302
    return client


def is_signed_in(client: Client) -> bool:
    """Return whether the client may open a page of the back office."""
    return client.get("/admin/inventory/pet/").status_code == 200


def clerk_with(*codenames: str) -> Client:
    """Return a signed-in client of a new member of staff with these permissions."""
    clerk = User.objects.create(username="clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return signed_in(clerk)


def run_bulk_action(staff: Client, action: str, *rows: Model, path: str, **form_data: Any) -> str:
    """Run an action on rows of the list at `path`; `form_data` is that of the confirmation page."""
    data = {"action": action, "_selected_action": [row.pk for row in rows]}
    return str(staff.post(path, data | form_data, follow=True).text.replace("&#x27;", "'"))


def list_rows(staff: Client, path: str, **query: Any) -> list[Any]:
    """Return the rows on the first page of a list."""
    return list(staff.get(path, query).context["cl"].result_list)


def page_url(row: Model, page: str = "change") -> str:
    """Return the URL of a page of a row in the back office."""
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{page}", args=[row.pk])
