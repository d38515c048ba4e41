"""Audit entries in words and links, for the audit trail and the histories of objects."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

from django.apps import apps
from django.contrib.auth.models import User
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db.models import ForeignKey, IntegerField, Model, QuerySet
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from petstore.api.int64 import parse_id
from petstore.audit import EMPTY_VALUES, HIDDEN, HIDDEN_NEW
from petstore.audit.models import AuditEntry
from petstore.backoffice.navigation import may_view
from petstore.db.names import visible_name
from petstore.text import truncate

TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)[\d:.]*\+00:00")
MAX_ENTRIES = 100
# Redundant with the object, time or action of an entry.
OMITTED_FIELDS = {"id", "created_at", "updated_at", "date_joined", "last_login", "is_staff", "public_id"}
OMITTED_FIELDS |= {"revoked_at", "revoked_reason", "suspended_at", "suspended_reason"}
FIELD_LABELS = {"groups": "role", "is_active": "may sign in", "is_superuser": "superuser"}

# Fields for recorded values that are not fields of the entry's model, by its label and their name.
extra_fields: dict[tuple[str, str], Any] = {}


class HistoryEntry(NamedTuple):
    at: datetime
    title: str
    actor: str
    reason: str = ""
    changes: Sequence[str] = ()
    link: str = ""
    icon: str = ""  # A Material Symbol.


def build_history(entries: QuerySet[AuditEntry], request: HttpRequest) -> list[HistoryEntry]:
    rows = list(entries[:MAX_ENTRIES])
    formatter = EntryFormatter(rows, request)
    return [formatter.build(row, changes=formatter.list_changes(row)) for row in rows]


class EntryFormatter:
    """Formats entries. Reads the rows that they refer to, with one query per model."""

    def __init__(self, entries: Iterable[AuditEntry], request: HttpRequest) -> None:
        self.request = request
        ids: dict[Any, set[Any]] = defaultdict(set)
        for entry in entries:
            references = [(User, entry.actor_id), (find_model(entry), entry.object_id)]
            values = chain(entry.before.items(), entry.after.items())
            references += [(find_related_model(entry, name), value) for name, value in values]
            for model, value in references:
                if model is not None:
                    ids[model].add(parse_pk(model, value))
        self.rows = {
            model: model._base_manager.select_related().in_bulk(pks - {None}) for model, pks in ids.items()
        }

    def get_row(self, model: type[Model], value: Any) -> Any:
        return self.rows[model].get(parse_pk(model, value))

    def get_object(self, entry: AuditEntry) -> Any:
        model = find_model(entry)
        return self.get_row(model, entry.object_id) if model is not None else None

    def build(self, entry: AuditEntry, **values: Any) -> HistoryEntry:
        title, actor = entry.get_action_display(), self.name_actor(entry)
        return HistoryEntry(entry.at, title, actor, entry.reason)._replace(**values)

    def name_actor(self, entry: AuditEntry) -> str:
        is_customer = is_member(self.get_row(User, entry.actor_id))
        return f"member {entry.actor_name}" if is_customer else entry.actor_name

    def link_actor(self, entry: AuditEntry) -> str:
        return self.link(self.get_row(User, entry.actor_id), self.name_actor(entry))

    def name_kind(self, entry: AuditEntry) -> str:
        model = find_model(entry)
        if is_member(self.get_object(entry)):
            return "member"
        return str(model._meta.verbose_name) if model is not None else entry.model

    def link_object(self, entry: AuditEntry) -> str:
        row = self.get_object(entry)
        return self.link(row, getattr(row, "audit_description", entry.object_text) or entry.object_id)

    def link(self, row: Any, text: str) -> str:
        """Link to the page of the row, if it has one that the user may view. Members have none."""
        if row is None or is_member(row) or not may_view(self.request, row._meta.label_lower):
            return text
        try:
            url = reverse(f"admin:{row._meta.label_lower.replace('.', '_')}_change", args=[row.pk])
        except NoReverseMatch:
            return text
        return render_link(url, text)

    def list_changes(self, entry: AuditEntry, max_length: int | None = None) -> list[SafeString]:
        """List the fields that changed or, for a new or deleted row, those that were set."""
        states = [state for state in (entry.before, entry.after) if state]
        changes = []
        for name in sorted(set().union(*states) - OMITTED_FIELDS):
            values = [state.get(name) for state in states]
            if len(states) == 1 and values[0] in (*EMPTY_VALUES, False, HIDDEN, HIDDEN_NEW):
                continue
            texts = [self.format_value(entry, name, value, max_length) for value in values]
            if any(value in (HIDDEN, HIDDEN_NEW) for value in values):
                texts = ["changed (value hidden)"]
            words = re.sub(r" \d+$", "", name.replace("_", " "))  # Of a related row, without its ID.
            default = getattr(find_field(entry, name), "verbose_name", None) or words
            change = format_html_join(" → ", "{}", [(text,) for text in texts])
            changes.append(format_html("{}: {}", FIELD_LABELS.get(name, default), change))
        return changes

    def format_value(self, entry: AuditEntry, name: str, value: Any, max_length: int | None) -> str:
        model, row = find_related_model(entry, name), None
        if model is None or value in EMPTY_VALUES:
            choices = dict(getattr(find_field(entry, name), "flatchoices", ()))
            text = format_plain_value(choices.get(str(value), value))
        elif row := self.get_row(model, value):
            text = getattr(row, "audit_description", str(row))
        else:
            text = f"{model._meta.verbose_name} {value} (deleted)"
        return self.link(row, truncate(text, max_length or len(text)))


def render_link(url: str, text: str) -> SafeString:
    return format_html('<a class="office-link" href="{}">{}</a>', url, text)


def find_model(entry: AuditEntry) -> type[Model] | None:
    """Return None if the model was removed, or if the entry has none."""
    with suppress(LookupError, ValueError):
        return apps.get_model(entry.model)
    return None


def find_field(entry: AuditEntry, name: str) -> Any:
    """Return None if the field was removed."""
    model = find_model(entry)
    with suppress(FieldDoesNotExist):
        return extra_fields.get((entry.model, name)) or (model and model._meta.get_field(name))
    return None


def find_related_model(entry: AuditEntry, name: str) -> Any:
    """Return the model that the recorded values of a field refer to, or None."""
    field = find_field(entry, name)
    return field.related_model if isinstance(field, ForeignKey) else None


def parse_pk(model: type[Model], value: Any) -> Any:
    """Return None if no row of the model can have this primary key."""
    pk = model._meta.pk
    if isinstance(pk, IntegerField):
        return parse_id(str(value))
    with suppress(ValidationError):
        return pk.to_python(value)
    return None


def is_member(row: Any) -> bool:
    """Whether the row is a user who is not on the staff."""
    return isinstance(row, User) and not row.is_staff


def format_plain_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        # Django names permissions like "Inventory | order | Can view order".
        return ", ".join(format_plain_value(item).rpartition(" | Can ")[2] for item in value) or "none"
    if value in EMPTY_VALUES:
        return "none"
    return visible_name(TIMESTAMP.sub(r"\1 \2 UTC", str(value)))
