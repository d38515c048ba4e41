"""Two staff edit the same row: the second is told, and keeps what they typed.

A change form carries the version of what it shows: a keyed hash of the stored values of its fields. When it
comes back, the row is locked, and the form is not saved if those values are others by then. Fields that the
form doesn't offer don't count: the last use of a key changes every minute, which no rename minds.
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
    """Return the version of a row for a form with these fields."""
    values = model_to_dict(row, fields=list(fields))
    stored = [(name, plain(values[name])) for name in sorted(values)]
    return salted_hmac("petstore edit", repr(stored), algorithm="sha256").hexdigest()


def plain(value: Any) -> str:
    """Return a value as text; rows that are referred to by their ids, in order."""
    if isinstance(value, list):
        return repr(sorted(str(getattr(part, "pk", part)) for part in value))
    return repr(value)


def lock(row: models.Model, request: HttpRequest) -> bool:
    """Lock the row until the form is saved, so that what is compared stays true; tell if it was needed.

    Rows that refer to it are still written meanwhile: usage, for one, by a writer which may hold what the
    save needs next. SQLite locks all rows of a transaction that writes, from its start.
    """
    if FIELD not in request.POST or not connection.features.has_select_for_update:
        return False
    if not connection.in_atomic_block:  # Not a page with a form of the row's own.
        return False
    rows = type(row)._base_manager.select_for_update(no_key=True).filter(pk=row.pk)
    return bool(rows.values_list("pk"))


def checked(form_class: type[Any], row: models.Model, request: HttpRequest) -> type[Any]:
    """Return the form, which refuses if the row is no longer as it was shown."""
    sent = request.POST.get(FIELD)
    now = version_of(row, form_class.base_fields)
    if sent is None or constant_time_compare(sent.encode(), now.encode()):
        return form_class

    class OutdatedForm(form_class):  # type: ignore[misc]  # A class that is known at run time only.
        def clean(self) -> Any:
            cleaned = super().clean()
            self.add_error(None, what_changed(self, row))
            return cleaned

    return OutdatedForm


def what_changed(form: forms.ModelForm[Any], row: models.Model) -> str:
    """Return the sentences that tell who was faster, and what is stored where something else was typed."""
    last = AuditEntry.objects.about(row).filter(action=AuditEntry.Action.CHANGED).first()
    who = last.actor_name if last is not None and last.actor_name else "Somebody"
    stored = "; ".join(
        f"{form.fields[name].label or name}: {display_value(form, name)}"
        for name in form.changed_data
        if name in form.initial
    )
    now = f" Stored now: {stored}." if stored else ""
    return (
        f"{who} changed this while you had it open, so nothing was saved.{now} "
        "Below is what you typed: check it, then save again to put it in place of theirs."
    )


def display_value(form: forms.ModelForm[Any], name: str) -> str:
    """Return the stored value of a field as people read it."""
    value, field = form.initial[name], form.fields[name]
    if isinstance(field, forms.ModelChoiceField) and not isinstance(value, list):
        value = field.queryset.filter(pk=value).first() if field.queryset is not None else value
    if isinstance(value, list):
        value = ", ".join(str(part) for part in value)
    return "nothing" if value in (None, "") else str(value)[:200]
