"""The audit trail: actor, action, address, reason, and the old and new values of changed fields.

Model methods that take an `Actor` record their own changes, and the pages of the admin the others.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Self

from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.db.models import BinaryField, Model
from django.http import HttpRequest

from petstore.api.client_ip import NO_ADDRESS, get_client_address
from petstore.audit.actions import Action as Action
from petstore.audit.actions import labels
from petstore.audit.models import AuditEntry
from petstore.observability import logs
from petstore.observability.redaction import contains_key, redact

Values = dict[str, Any]

# Values of these fields are not recorded, because entries cannot be erased on request.
SECRET_FIELDS = {
    "password", "digest", "pepper_number", "key", "token", "secret", "session_data", "session_key",
    "contact_email", "notes", "url",
}  # fmt: skip
HIDDEN, HIDDEN_NEW = "(not shown)", "(not shown, but changed)"
MAX_VALUE_LENGTH = 2000  # Characters.
EMPTY_VALUES: tuple[Any, ...] = (None, "", [])


@dataclass(frozen=True)
class Actor:
    """The author of an action: a user, a management command, or the service itself."""

    name: str
    user_id: int | None = None
    address: str = str(NO_ADDRESS)

    @classmethod
    def from_request(cls, request: HttpRequest | None, user: User | None = None) -> Self:
        """Prefer `user` to the request's user. Without either, the name is empty."""
        author = user or getattr(request, "user", None) or AnonymousUser()
        address = get_client_address(request) if request is not None else NO_ADDRESS
        return cls(author.get_username(), author.pk, str(address))


def record(
    actor: Actor,
    obj: Model | type[Model] | None,
    action: str,
    *,
    before: Values | None = None,
    after: Values | None = None,
    reason: str = "",
) -> None:
    """Add an entry about a row, a model, or neither.

    Only values that differ are recorded. The values of SECRET_FIELDS are masked. Raises ValueError for an
    action that is not registered.
    """
    if action not in labels:
        raise ValueError(action)
    row = obj if isinstance(obj, Model) else None
    name = row or (obj._meta.verbose_name_plural if obj is not None else "")
    before, after = keep_differences(before or {}, after or {})
    AuditEntry.objects.create(
        actor_id=actor.user_id,
        actor_name=actor.name[:150],
        action=action,
        model=obj._meta.label_lower if obj is not None else "",
        object_id=str(row.pk)[:255] if row is not None else "",
        object_text=str(name)[:255],
        before=mask(before, HIDDEN),
        after=mask(after, HIDDEN_NEW),
        reason=redact(reason)[:500] if contains_key(reason) else reason[:500],
        address=actor.address,
        request_id=logs.request_id.get(""),
    )


@contextmanager
def record_changes(actor: Actor, row: Model, action: str, *, reason: str = "") -> Iterator[None]:
    """Record how the block changes the row, in one transaction."""
    with transaction.atomic():
        before = get_field_values(row)
        yield
        record(actor, row, action, before=before, after=get_field_values(row), reason=reason)


def keep_differences(before: Values, after: Values) -> tuple[Values, Values]:
    """Keep only the values that differ. All EMPTY_VALUES count as equal."""

    def differs(name: str) -> bool:
        old, new = before.get(name), after.get(name)
        return old != new and not (old in EMPTY_VALUES and new in EMPTY_VALUES)

    return (
        {name: value for name, value in before.items() if differs(name)},
        {name: value for name, value in after.items() if differs(name)},
    )


def mask(values: Values, placeholder: str) -> Values:
    return {name: placeholder if name in SECRET_FIELDS else to_json(values[name]) for name in values}


def to_json(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value[:200]]
    return str(value)[:MAX_VALUE_LENGTH]


# --- Field values


def get_field_values(row: Model) -> Values:
    """Map field names to values: many-to-many fields to sorted names. Binary fields are left out."""
    fields = [field for field in row._meta.concrete_fields if not isinstance(field, BinaryField)]
    values: Values = {field.name: field.value_from_object(row) for field in fields}
    for field in row._meta.many_to_many:
        values[field.name] = sorted(str(related) for related in field.value_from_object(row))
    # Of rows that are edited with this one.
    return values | getattr(row, "get_related_values", dict)()


def read_stored_values(obj: Model) -> Values:
    """Read the values from the database. Without a stored row, return an empty dict."""
    stored = type(obj)._base_manager.filter(pk=obj.pk).first()
    return get_field_values(stored) if stored is not None else {}


def record_password_change(request: HttpRequest, user: User, reason: str) -> None:
    """Record that a user chose a password. The values are placeholders, which the entry masks."""
    actor, before, after = Actor.from_request(request, user), {"password": "old"}, {"password": "new"}
    record(actor, user, Action.CHANGED, before=before, after=after, reason=reason)
