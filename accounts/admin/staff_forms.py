"""The forms of a member of staff: one role, and whether they may sign in."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from django import forms
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.forms import UserCreationForm
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from unfold.forms import UserChangeForm
from unfold.widgets import UnfoldAdminSelectWidget

from petstore.backoffice.navigation import PAGES

ROLES = {
    "Viewer": "sees everything but staff and the audit trail, and changes nothing",
    "Support": "sees what a Viewer sees; issues and revokes keys, and looks after accounts",
    "Stock": "sees the shop alone; looks after pets, categories and orders",
    "Owner": "does what all of them do; changes plans, looks after staff, and sees the audit trail",
}

# Instead of Django's, on the form for somebody new and on everybody's page.
LABELS = {"is_active": "May sign in", "is_superuser": "Superuser"}
HELP = {
    "username": "What they sign in with: letters, digits and the signs @ . + - _",
    "is_active": "Switch it off when somebody leaves. What they did stays in the audit trail.",
    "is_superuser": "May do everything, whatever their role is. An Owner's role is enough for daily work.",
    "user_permissions": "What they may do besides their role.",
}

VERBS = {"view": "See", "add": "Add", "change": "Change", "delete": "Delete"}


def rights(permissions: Iterable[Permission]) -> list[tuple[str, list[tuple[int, str]]]]:
    """Return the choices among permissions: for each page of the navigation, what can be done there."""
    given = {(each.content_type_id, each.codename): each.pk for each in permissions}
    found = []
    for path, title, _ in chain(*PAGES.values()):
        model = apps.get_model(path)
        page, kind = admin.site.get_model_admin(model), ContentType.objects.get_for_model(model)
        keys = {verb: (kind.pk, f"{verb}_{model._meta.model_name}") for verb in VERBS}
        choices = [
            (given[key], f"{VERBS[verb]} {model._meta.verbose_name_plural}")
            for verb, key in keys.items()
            if key in given and getattr(page, f"can_{verb}", True)
        ]
        found += [(title, choices)] if choices else []
    return found


class RoleSelect(UnfoldAdminSelectWidget):
    """One select for several rows: a value of it is their ids, with commas."""

    def format_value(self, value: Any) -> list[str]:
        return [",".join(sorted(str(pk) for pk in value or []))]

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[str]:
        return [pk for pk in data.get(name, "").split(",") if pk]


class RoleField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]  # Generic in its stubs only.
    """The groups. Who is in several keeps them until another role is chosen."""

    widget = RoleSelect

    def label_from_instance(self, group: Any) -> str:
        return f"{group.name}: {ROLES[group.name]}" if group.name in ROLES else group.name


class StaffForm(UserChangeForm):
    class Meta(UserChangeForm.Meta):
        labels, help_texts = LABELS, HELP

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Offer what somebody has: nothing, or several groups; and one switch for those who may sign in."""
        super().__init__(*args, **kwargs)
        self.initial["is_active"] = self.instance.is_active and self.instance.is_staff
        groups: list[Group] = self.initial.get("groups", [])
        if "groups" in self.fields and len(groups) != 1:
            role: Any = self.fields["groups"]
            [value] = role.widget.format_value(group.pk for group in groups)
            name = " and ".join(group.name for group in groups) or "No role: sees nothing"
            role.choices = [(value, name), *role.choices]


class NewStaffForm(UserCreationForm):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Asks for no password: they choose it themselves, with a link."""

    password1 = password2 = None  # type: ignore[assignment]  # So Django leaves a field out.

    class Meta(UserCreationForm.Meta):
        labels, help_texts = LABELS, HELP

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        role: Any = self.fields["groups"]
        role.required = True
        role.choices = [("", "Choose a role"), *role.choices]

    def save(self, commit: bool = True) -> Any:
        self.instance.set_unusable_password()
        return forms.ModelForm.save(self, commit)
