"""The audit trail: actor, action, address, reason, and the old and new values of changed fields.

`PetstoreModelAdmin` records changes made on its pages. Model methods that take an `Actor` record their own.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, BinaryIO, Self

from django.contrib.auth.models import AnonymousUser, User
from django.db import models, transaction
from django.http import FileResponse, HttpRequest
from django.utils import timezone

from petstore.api.client_ip import NO_ADDRESS, get_client_address
from petstore.backoffice.models import AuditEntry
from petstore.observability import logs
from petstore.observability.redaction import contains_key, redact

Action = AuditEntry.Action
Values = dict[str, Any]

# Values of these fields are not recorded, because entries cannot be erased on request.
SECRET_FIELDS = {
    "password", "digest", "pepper_number", "key", "token", "secret", "session_data", "session_key",
    "contact_email", "notes",
}  # fmt: skip
HIDDEN, HIDDEN_NEW = "(not shown)", "(not shown, but changed)"
MAX_VALUE_LENGTH = 2000  # Characters.
EXPORT_CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
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
    obj: models.Model | type[models.Model] | None,
    action: Action,
    *,
    before: Values | None = None,
    after: Values | None = None,
    reason: str = "",
) -> None:
    """Add an entry about a row, a model, or neither.

    Only values that differ are recorded. The values of SECRET_FIELDS are masked.
    """
    row = obj if isinstance(obj, models.Model) else None
    name = row or (obj._meta.verbose_name_plural if obj is not None else "")
    before, after = keep_differences(before or {}, after or {})
    AuditEntry.objects.create(
        actor_id=actor.user_id,
        actor_name=actor.name[:150],
        action=Action(action),
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
def record_changes(actor: Actor, row: models.Model, action: Action, *, reason: str = "") -> Iterator[None]:
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


def get_field_values(row: models.Model) -> Values:
    """Map field names to values: many-to-many fields to sorted names. Binary fields are left out."""
    fields = [field for field in row._meta.concrete_fields if not isinstance(field, models.BinaryField)]
    values: Values = {field.name: field.value_from_object(row) for field in fields}
    for field in row._meta.many_to_many:
        values[field.name] = sorted(str(related) for related in field.value_from_object(row))
    return values


def read_stored_values(obj: models.Model) -> Values:
    """Read the values from the database. Without a stored row, return an empty dict."""
    stored = type(obj)._base_manager.filter(pk=obj.pk).first()
    return get_field_values(stored) if stored is not None else {}


def remember_values(request: HttpRequest, rows: Iterable[models.Model]) -> None:
    """Store the current values on the request, so that `record_change` can compare them after the save."""
    remembered = request.__dict__.setdefault("_petstore_before", {})
    for row in rows:
        remembered[row._meta.label_lower, row.pk] = get_field_values(row)


def send_export(
    request: HttpRequest, model: type[models.Model], name: str, write: Callable[[BinaryIO], None]
) -> FileResponse:
    """Stream an export and record it with the filters of the list.

    The file is written to disk first, so that a slow download holds no database connection. The entry masks
    the search term, as logs do.
    """
    file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  The response closes it.
    write(file)
    file.seek(0)
    filters = request.GET.copy()
    if "q" in filters:
        filters["q"] = HIDDEN
    after = {"filters": filters.urlencode(safe="() ") or "none"}
    record(Actor.from_request(request), model, Action.EXPORTED, after=after)
    stem, extension = name.split(".")
    name, content_type = f"{stem}-{timezone.now():%Y-%m-%d}.{extension}", EXPORT_CONTENT_TYPES[extension]
    return FileResponse(file, as_attachment=True, filename=name, content_type=content_type)


def record_change(request: HttpRequest, obj: models.Model, reason: str) -> None:
    """Record the changes since `remember_values`. An unchanged row is recorded only with a reason."""
    after = read_stored_values(obj)
    remembered = request.__dict__.get("_petstore_before", {})
    before = remembered.get((obj._meta.label_lower, obj.pk), after)
    if before != after or reason:
        record(Actor.from_request(request), obj, Action.CHANGED, before=before, after=after, reason=reason)


def record_password_change(request: HttpRequest, user: User, reason: str) -> None:
    """Record that a user chose a password. The values are placeholders, which the entry masks."""
    actor, before, after = Actor.from_request(request, user), {"password": "old"}, {"password": "new"}
    record(actor, user, Action.CHANGED, before=before, after=after, reason=reason)
