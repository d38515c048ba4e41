"""Protection against privilege escalation in the admin of staff and roles.

Staff can't edit colleagues who have more permissions, grant permissions they lack, or drop their own. This
ensures that at least one person can always manage the others.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any, cast

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from accounts.admin.base import ConfirmedChangesAdmin
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


class NoEscalationAdmin(ConfirmedChangesAdmin):
    """Protects users and groups with more permissions than the editor, who can grant only their own."""

    permissions_field: str

    def outranks(self, request: HttpRequest, obj: Any) -> bool:
        """Return whether the user or group has permissions that the editor lacks."""
        editor = get_user(request)
        if editor.is_superuser:
            return False
        editor_permissions = get_user_permissions(editor).values("pk")
        return self.get_object_permissions(obj).exclude(pk__in=editor_permissions).exists()

    def get_object_permissions(self, obj: Any) -> QuerySet[Permission]:
        raise NotImplementedError

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and not (obj and self.outranks(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and not (obj and self.outranks(request, obj))

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer checkboxes of grantable permissions, since Django's filter widget needs a mouse."""
        if db_field.name != self.permissions_field:
            return super().formfield_for_manytomany(db_field, request, **kwargs)
        permissions = get_grantable_permissions(get_user(request))
        kwargs |= {"queryset": permissions, "widget": UnfoldAdminCheckboxSelectMultipleWidget()}
        field = super().formfield_for_manytomany(db_field, request, **kwargs)
        field.choices = get_permission_choices(permissions)
        return field

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Keep permissions that the form does not offer."""
        groups = get_permission_choices(Permission.objects.all())
        offered = [pk for _, choices in groups for pk, _ in choices]
        permissions = getattr(form.instance, self.permissions_field)
        retained = list(permissions.exclude(pk__in=offered))
        super().save_related(request, form, formsets, change)
        permissions.add(*retained)
