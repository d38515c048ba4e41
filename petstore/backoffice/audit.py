"""Writing the audit trail: who did what to which row, from where, and which values it changed.

`PetstoreModelAdmin` records every change made through its pages; sign-ins and sign-outs come from Django's
signals. What else staff do is recorded with `record`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Any, cast

from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import models
from django.dispatch import receiver
from django.http import HttpRequest
from django_otp import user_has_device

from petstore.api.client_ip import NOWHERE, client_address
from petstore.backoffice.models import AuditEntry
from petstore.observability import logs

Action = AuditEntry.Action
Values = dict[str, Any]

# Fields whose values never reach the trail, in whichever model.
SECRET = {"password", "digest", "pepper_number", "key", "token", "secret", "session_data", "session_key"}
HIDDEN, HIDDEN_NEW = "(not shown)", "(not shown, but changed)"
LONGEST_VALUE = 2000  # Characters.


def record(
    request: HttpRequest | None,
    obj: models.Model | None,
    action: str,
    *,
    before: Values | None = None,
    after: Values | None = None,
    reason: str = "",
    actor: User | None = None,
) -> AuditEntry:
    """Add an entry.

    The actor is the member of staff who is signed in, unless another is named. `before` and `after` hold
    the values of the fields that changed; values of secret fields are hidden here.
    """
    user = actor if actor is not None else getattr(request, "user", None)
    known = isinstance(user, User) or bool(getattr(user, "is_authenticated", False))
    return AuditEntry.objects.create(
        actor_id=user.pk if user is not None and known else None,
        actor_name=user.get_username() if user is not None and known else "",
        action=action,
        model=obj._meta.label_lower if obj is not None else "",
        object_id=str(obj.pk)[:255] if obj is not None else "",
        object_text=str(obj)[:255] if obj is not None else "",
        before=hide(before or {}, HIDDEN),
        after=hide(after or {}, HIDDEN_NEW),
        reason=reason[:500],
        address=str(client_address(request) if request is not None else NOWHERE),
        request_id=logs.request_id.get(""),
    )


def hide(values: Values, shown: str) -> Values:
    """Return the values as JSON takes them, without secrets."""
    return {name: shown if name in SECRET else as_json(value) for name, value in values.items()}


def as_json(value: Any) -> Any:
    """Return a value in a form that JSON has, and that people can read."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value[:200]]
    return str(value)[:LONGEST_VALUE]


# --- Old and new values --------------------------------------------------------------------------


def values_in(row: models.Model) -> Values:
    """Return the values of a row as it was read, but no contents of files; of many related rows, names."""
    fields = [field for field in row._meta.concrete_fields if not isinstance(field, models.BinaryField)]
    values: Values = {field.name: field.value_from_object(row) for field in fields}
    for field in row._meta.many_to_many:
        values[field.name] = sorted(str(related) for related in field.value_from_object(row))
    return values


def stored_values(obj: models.Model) -> Values:
    """Return the values of a row, read anew; nothing if it isn't stored."""
    stored = type(obj)._base_manager.filter(pk=obj.pk).first()
    return values_in(stored) if stored is not None else {}


def changed(before: Values, after: Values) -> tuple[Values, Values]:
    """Return the old and the new values of the fields that differ."""
    names = [name for name in after if before.get(name) != after[name]]
    return {name: before.get(name) for name in names}, {name: after[name] for name in names}


def filled(values: Values) -> Values:
    """Return the values that say something."""
    return {name: value for name, value in values.items() if value not in (None, "", [])}


def snapshots(request: HttpRequest) -> dict[tuple[str, str], Values]:
    """Return what rows held when this request began with them, by model and id."""
    found: dict[tuple[str, str], Values] = request.__dict__.setdefault("_petstore_before", {})
    return found


def remember(request: HttpRequest, rows: Iterable[models.Model]) -> None:
    """Keep what rows hold that were just read, before they are changed.

    `PetstoreModelAdmin` does it for the row of a page and for the rows of an action.
    """
    for row in rows:
        snapshots(request)[row._meta.label_lower, str(row.pk)] = values_in(row)


def record_addition(request: HttpRequest, obj: models.Model, reason: str) -> None:
    """Record that a row is new."""
    record(request, obj, Action.ADDED, after=filled(stored_values(obj)), reason=reason)


def record_change(request: HttpRequest, obj: models.Model, reason: str) -> None:
    """Record that a row changed since it was remembered; the next change starts from here."""
    now, place = stored_values(obj), (obj._meta.label_lower, str(obj.pk))
    before, after = changed(snapshots(request).get(place, now), now)
    snapshots(request)[place] = now
    record(request, obj, Action.CHANGED, before=before, after=after, reason=reason)


def record_deletion(request: HttpRequest, obj: models.Model) -> None:
    """Record that a row goes; call it before."""
    reason = request.POST.get("reason", "")
    record(request, obj, Action.DELETED, before=filled(stored_values(obj)), reason=reason)


# --- Signing in and out --------------------------------------------------------------------------


@receiver(user_logged_in, dispatch_uid="audit of sign-ins")
def signed_in(request: HttpRequest | None, user: User, **kwargs: Any) -> None:
    """Record the sign-in; with two-factor, its first half."""
    half = user_has_device(user)
    record(request, user, Action.PASSWORD_ACCEPTED if half else Action.SIGNED_IN, actor=user)


@receiver(user_logged_out, dispatch_uid="audit of sign-outs")
def signed_out(request: HttpRequest | None, user: User | None, **kwargs: Any) -> None:
    """Record the sign-out."""
    if user is not None:
        record(request, user, Action.SIGNED_OUT, actor=user)


@receiver(user_login_failed, dispatch_uid="audit of failed sign-ins")
def sign_in_failed(credentials: dict[str, Any], request: HttpRequest | None = None, **kwargs: Any) -> None:
    """Record the attempt, and on whose name it was made; who made it is not known.

    A name that nobody has is not kept: people type passwords there by mistake, and entries stay for good.
    """
    user = User.objects.filter(username=str(credentials.get("username", ""))).first()
    reason = "Wrong password, or not allowed in." if user else "A name that nobody has."
    record(request, user, Action.SIGN_IN_FAILED, reason=reason)


def record_password_change(request: HttpRequest) -> None:
    """Record that somebody changed their own password."""
    user = cast("User", request.user)
    secret = {"password": ""}
    record(request, user, Action.CHANGED, before=secret, after=secret, reason="Their own password.")
