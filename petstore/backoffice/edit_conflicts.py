"""Optimistic locking of change forms: a save is rejected if the row has changed since the form was loaded.

The form carries a version: a keyed hash of the stored values of its fields. The save locks the row and
compares. Other fields do not count: the last use of a key changes every minute and conflicts with no edit.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.db import connection, models
from django.forms.models import model_to_dict
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare, salted_hmac

from petstore.backoffice.models import AuditEntry

FIELD = "_version"


def version_of(row: models.Model, fields: Any) -> str:
    values = model_to_dict(row, fields=list(fields))
    stored = [(name, as_text(values[name])) for name in sorted(values)]
    return salted_hmac("petstore edit", repr(stored), algorithm="sha256").hexdigest()


def as_text(value: Any) -> str:
    if isinstance(value, list):
        return repr(sorted(str(getattr(part, "pk", part)) for part in value))
    return repr(value)


def lock(row: models.Model, request: HttpRequest) -> bool:
    """Lock the row until the transaction ends. False if it holds no lock, as on SQLite, which needs none.

    FOR NO KEY UPDATE does not block writes of rows that refer to this one, such as usage: the usage writer
    may hold locks that the save needs, which could deadlock.
    """
    if FIELD not in request.POST or not connection.features.has_select_for_update:
        return False
    if not connection.in_atomic_block:  # Not a change form.
        return False
    rows = type(row)._base_manager.select_for_update(no_key=True).filter(pk=row.pk)
    return bool(rows.values_list("pk"))


def reject_outdated(form_class: type[Any], row: models.Model, request: HttpRequest) -> type[Any]:
    """Return the form class, made invalid if the posted version is not the row's current one."""
    sent = request.POST.get(FIELD)
    now = version_of(row, form_class.base_fields)
    if sent is None or constant_time_compare(sent.encode(), now.encode()):
        return form_class

    class OutdatedForm(form_class):  # type: ignore[misc]  # A dynamic base class.
        def clean(self) -> Any:
            cleaned = super().clean()
            self.add_error(None, conflict_message(self, row))
            return cleaned

    return OutdatedForm


def conflict_message(form: forms.ModelForm[Any], row: models.Model) -> str:
    last = AuditEntry.objects.about(row).filter(action=AuditEntry.Action.CHANGED).first()
    who = last.actor_name if last is not None and last.actor_name else "Another user"
    stored = "; ".join(
        f"{form.fields[name].label or name}: {display_value(form, name)}"
        for name in form.changed_data
        if name in form.initial
    )
    now = f" Stored now: {stored}." if stored else ""
    return (
        f"{who} changed this while you had it open. Your changes were not saved.{now} "
        "Check your input below and save again to overwrite theirs."
    )


def display_value(form: forms.ModelForm[Any], name: str) -> str:
    value, field = form.initial[name], form.fields[name]
    if isinstance(field, forms.ModelChoiceField) and not isinstance(value, list):
        value = field.queryset.filter(pk=value).first() if field.queryset is not None else value
    if isinstance(value, list):
        value = ", ".join(str(part) for part in value)
    return "nothing" if value in (None, "") else str(value)[:200]
