"""Protection against privilege escalation in the admin of staff and roles.

Staff can't edit colleagues who have more permissions, grant permissions they lack, or drop their own. This
ensures that at least one person can always manage the others.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, cast

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from petstore.backoffice.navigation import PAGES

APPS_WITH_PAGES = ("accounts", "inventory", "health", "auth", "backoffice")
PERMISSION_LABELS = {"view": "View", "add": "Add", "change": "Change", "delete": "Delete"}


def get_user(request: HttpRequest) -> User:
    """Return the signed-in user. Admin pages never serve an AnonymousUser."""
    return cast("User", request.user)


def get_user_permissions(user: User) -> QuerySet[Permission]:
    """Return the permissions of a user and of their groups, even if the user is inactive."""
    return Permission.objects.filter(Q(user=user) | Q(group__user=user))


def get_grantable_permissions(user: User) -> QuerySet[Permission]:
    """Return the permissions that the user may grant: their own, for apps that have pages."""
    permissions = Permission.objects.filter(content_type__app_label__in=APPS_WITH_PAGES)
    if not user.is_superuser:
        permissions = permissions.filter(pk__in=get_user_permissions(user).values("pk"))
    return permissions.select_related("content_type")


def get_permission_choices(permissions: Iterable[Permission]) -> list[tuple[str, list[tuple[int, str]]]]:
    """Group the permissions by page of the navigation, as choices with optgroups."""
    ids = {(permission.content_type_id, permission.codename): permission.pk for permission in permissions}
    groups = []
    for model_label, title, *_ in chain(*PAGES.values()):
        model = apps.get_model(model_label)
        model_admin = admin.site.get_model_admin(model)
        content_type = ContentType.objects.get_for_model(model)
        choices = []
        for action, label in PERMISSION_LABELS.items():
            pk = ids.get((content_type.pk, f"{action}_{model._meta.model_name}"))
            if pk is not None and getattr(model_admin, f"can_{action}", True):
                choices.append((pk, f"{label} {model._meta.verbose_name_plural}"))
        if choices:
            groups.append((title, choices))
    return groups


def outranks(editor: User, permissions: QuerySet[Permission]) -> bool:
    """Return whether the permissions, of a user or a role, include some that the editor lacks."""
    if editor.is_superuser:
        return False
    return permissions.exclude(pk__in=get_user_permissions(editor).values("pk")).exists()


def offer_grantable_permissions(field: Any, editor: User) -> Any:
    """Offer checkboxes of grantable permissions, since Django's filter widget needs a mouse."""
    field.queryset = get_grantable_permissions(editor)
    field.widget = UnfoldAdminCheckboxSelectMultipleWidget()
    field.help_text = ""  # Django's is about a list of options.
    field.choices = get_permission_choices(field.queryset)
    return field


@contextmanager
def keep_other_permissions(permissions: Any) -> Iterator[None]:
    """Restore the permissions that the form does not offer after the block has set the others."""
    groups = get_permission_choices(Permission.objects.all())
    offered = [pk for _, choices in groups for pk, _ in choices]
    retained = list(permissions.exclude(pk__in=offered))
    yield
    permissions.add(*retained)
