"""Optimistic locking of change forms: a save is rejected if the row has changed since the form was loaded.

The form carries a version, which is a keyed hash of the stored values of its fields. The save locks the row
and compares versions. Other fields are left out: a key's last use changes every minute without conflicting
with any edit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.db import connection, models
from django.forms.models import model_to_dict
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare, salted_hmac

from petstore.audit.actions import Action
from petstore.audit.models import AuditEntry

VERSION_FIELD = "_version"


def compute_version(obj: models.Model, fields: Iterable[str]) -> str:
    values = model_to_dict(obj, fields=list(fields))
    serialized = [(name, serialize(values[name])) for name in sorted(values)]
    return salted_hmac("petstore edit", repr(serialized), algorithm="sha256").hexdigest()


def serialize(value: Any) -> str:
    if isinstance(value, list):
        return repr(sorted(str(getattr(item, "pk", item)) for item in value))
    return repr(value)


def lock_for_save(obj: models.Model, request: HttpRequest) -> bool:
    """Lock the row until the transaction ends, if the request saves a change form.

    Return whether the row is locked. SQLite needs no lock.

    FOR NO KEY UPDATE does not block writes of rows that refer to this one. A stronger lock could deadlock
    with the usage writer, which may hold locks that the save needs.
    """
    is_change_form = VERSION_FIELD in request.POST and connection.in_atomic_block
    if not is_change_form or not connection.features.has_select_for_update:
        return False
    rows = type(obj)._base_manager.select_for_update(no_key=True).filter(pk=obj.pk)
    return bool(rows.values_list("pk"))


def reject_outdated(form_class: type[Any], obj: models.Model, request: HttpRequest) -> type[Any]:
    """Return the form class, made invalid if the posted version is outdated."""
    posted = request.POST.get(VERSION_FIELD)
    current = compute_version(obj, form_class.base_fields)
    if posted is None or constant_time_compare(posted.encode(), current.encode()):
        return form_class

    class OutdatedForm(form_class):  # type: ignore[misc]  # A dynamic base class.
        def clean(self) -> Any:
            cleaned_data = super().clean()
            self.add_error(None, describe_conflict(self, obj))
            return cleaned_data

    return OutdatedForm


def describe_conflict(form: forms.ModelForm[Any], obj: models.Model) -> str:
    entries = AuditEntry.objects.for_object(obj).filter(action=Action.CHANGED)
    if updated_at := getattr(obj, "updated_at", None):  # Clients of the API leave no entries.
        entries = entries.filter(at__gte=updated_at)
    entry = entries.first()
    actor = (entry and entry.actor_name) or "Another user"
    stored = "; ".join(
        f"{form.fields[name].label or name}: {display_initial(form, name)}"
        for name in form.changed_data
        if name in form.initial
    )
    stored_values = f" Stored now: {stored}." if stored else ""
    return (
        f"{actor} changed this while you had it open. Your changes were not saved.{stored_values} "
        "Check your input below and save again to overwrite theirs."
    )


def display_initial(form: forms.ModelForm[Any], name: str) -> str:
    value, field = form.initial[name], form.fields[name]
    if isinstance(field, forms.ModelChoiceField) and not isinstance(value, list):
        value = field.queryset.filter(pk=value).first() if field.queryset is not None else value
    if isinstance(value, list):
        value = ", ".join(str(item) for item in value)
    return "nothing" if value in (None, "") else str(value)[:200]
