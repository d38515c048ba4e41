"""The audit trail: who did what, from where, why, and which values changed.

`PetstoreModelAdmin` records the changes of its pages. Model methods that take an `Actor` record themselves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, BinaryIO

from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import models
from django.dispatch import receiver
from django.http import FileResponse, HttpRequest
from django.utils import timezone
from django_otp import user_has_device

from petstore.api.client_ip import NO_ADDRESS, client_address
from petstore.backoffice.models import AuditEntry, FailedSignIn
from petstore.observability import logs

Action = AuditEntry.Action
Values = dict[str, Any]

# Never recorded, in any model: secrets, and personal data, since entries cannot be erased on request.
SECRET_FIELDS = {
    "password", "digest", "pepper_number", "key", "token", "secret", "session_data", "session_key",
    "contact_email", "notes",
}  # fmt: skip
HIDDEN, HIDDEN_NEW = "(not shown)", "(not shown, but changed)"
MAX_VALUE_LENGTH = 2000  # Characters.
CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}  # Of exports.
EMPTY: tuple[Any, ...] = (None, "", [])


@dataclass(frozen=True)
class Actor:
    """The author of an action: a member of staff, a management command, or the service itself."""

    name: str
    user_id: int | None = None
    address: str = str(NO_ADDRESS)

    @classmethod
    def of(cls, request: HttpRequest | None, user: User | None = None) -> Actor:
        """Use `user`, else the request's user. The name is empty without either."""
        known = user or getattr(request, "user", None) or AnonymousUser()
        address = client_address(request) if request is not None else NO_ADDRESS
        return cls(known.get_username(), known.pk, str(address))


def record(
    by: Actor,
    obj: models.Model | type[models.Model] | None,
    action: Action,
    *,
    before: Values | None = None,
    after: Values | None = None,
    reason: str = "",
) -> None:
    """Add an entry about a row, a model, or neither.

    Only values that differ are recorded. Those of SECRET_FIELDS are masked.
    """
    row = obj if isinstance(obj, models.Model) else None
    name = row or (obj._meta.verbose_name_plural if obj is not None else "")
    before, after = difference(before or {}, after or {})
    AuditEntry.objects.create(
        actor_id=by.user_id,
        actor_name=by.name[:150],
        action=Action(action),
        model=obj._meta.label_lower if obj is not None else "",
        object_id=str(row.pk)[:255] if row is not None else "",
        object_text=str(name)[:255],
        before=mask(before, HIDDEN),
        after=mask(after, HIDDEN_NEW),
        reason=reason[:500],
        address=by.address,
        request_id=logs.request_id.get(""),
    )


def difference(before: Values, after: Values) -> tuple[Values, Values]:
    """Reduce both to the values that differ. None, "" and [] count as equal."""
    differing = {
        name
        for name in before | after
        if before.get(name) != after.get(name)
        and not (before.get(name) in EMPTY and after.get(name) in EMPTY)
    }
    return (
        {name: value for name, value in before.items() if name in differing},
        {name: value for name, value in after.items() if name in differing},
    )


def mask(values: Values, placeholder: str) -> Values:
    return {
        name: placeholder if name in SECRET_FIELDS else as_json(value) for name, value in values.items()
    }


def as_json(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value[:200]]
    return str(value)[:MAX_VALUE_LENGTH]


# --- Values of rows ------------------------------------------------------------------------------


def row_values(row: models.Model) -> Values:
    """Map the fields of a loaded row to values: many-to-many as sorted names, no binary fields."""
    fields = [field for field in row._meta.concrete_fields if not isinstance(field, models.BinaryField)]
    values: Values = {field.name: field.value_from_object(row) for field in fields}
    for field in row._meta.many_to_many:
        values[field.name] = sorted(str(related) for related in field.value_from_object(row))
    return values


def stored_values(obj: models.Model) -> Values:
    """Read the row again; empty if it does not exist."""
    stored = type(obj)._base_manager.filter(pk=obj.pk).first()
    return row_values(stored) if stored is not None else {}


def remember_values(request: HttpRequest, rows: Iterable[models.Model]) -> None:
    """Store the current values on the request, for `record_change` after the save."""
    remembered = request.__dict__.setdefault("_petstore_before", {})
    for row in rows:
        remembered[row._meta.label_lower, row.pk] = row_values(row)


def send_export(
    request: HttpRequest, model: type[models.Model], name: str, write: Callable[[BinaryIO], None]
) -> FileResponse:
    """Stream an export and record it, with the filters of the list.

    The file is written to disk first, so that a slow download holds no database connection. The search term
    is masked, as in logs.
    """
    file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  The response closes it.
    write(file)
    file.seek(0)
    filters = request.GET.copy()
    if "q" in filters:
        filters["q"] = HIDDEN
    after = {"filters": filters.urlencode(safe="() ") or "none"}
    record(Actor.of(request), model, Action.EXPORTED, after=after)
    stem, ending = name.split(".")
    name = f"{stem}-{timezone.now():%Y-%m-%d}.{ending}"
    return FileResponse(file, as_attachment=True, filename=name, content_type=CONTENT_TYPES[ending])


def record_change(request: HttpRequest, obj: models.Model, reason: str) -> None:
    """Record what changed since `remember_values`. Without a change, record only if there is a reason."""
    now = stored_values(obj)
    before = request.__dict__.get("_petstore_before", {}).get((obj._meta.label_lower, obj.pk), now)
    if before != now or reason:
        record(Actor.of(request), obj, Action.CHANGED, before=before, after=now, reason=reason)


# --- Signing in and out --------------------------------------------------------------------------


@receiver(user_logged_in, dispatch_uid="audit of sign-ins")
def signed_in(request: HttpRequest | None, user: User, **kwargs: Any) -> None:
    # With a second factor, the code completes the sign-in.
    action = Action.PASSWORD_ACCEPTED if user_has_device(user) else Action.SIGNED_IN
    record(Actor.of(request, user), user, action)


@receiver(user_logged_out, dispatch_uid="audit of sign-outs")
def signed_out(request: HttpRequest | None, user: User | None, **kwargs: Any) -> None:
    if user is not None:
        record(Actor.of(request, user), user, Action.SIGNED_OUT)


@receiver(user_login_failed, dispatch_uid="audit of failed sign-ins")
def sign_in_failed(credentials: dict[str, Any], request: HttpRequest | None = None, **kwargs: Any) -> None:
    # An unknown name is not stored: people type their password there by mistake.
    user = User.objects.filter(username=str(credentials.get("username", ""))).first()
    reason = "Wrong password or no access." if user else "Unknown name."
    record_failed_sign_in(request, user, reason)


def record_failed_sign_in(request: HttpRequest | None, user: User | None, reason: str) -> None:
    FailedSignIn.objects.create(
        user_id=user.pk if user is not None else None,
        username=user.get_username() if user is not None else "",
        reason=reason,
        address=Actor.of(request).address,
        request_id=logs.request_id.get(""),
    )
