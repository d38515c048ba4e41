"""Requests that may be sent again: `Idempotency-Key` (D31).

The record is written in the transaction of the request's own write, so a crash leaves both or neither. It
goes in first: a twin that runs at the same time waits for it at the unique index, then replays the answer.
"""

import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.db import OperationalError, connection, transaction
from django.utils import timezone
from rest_framework.request import Request

from accounts.caller import caller_of
from accounts.models import IdempotencyRecord
from petstore.api.errors import ApiError, ErrorCode
from petstore.api.responses import Response
from petstore.loop.threads import in_thread

KEPT = timedelta(hours=24)
WELL_FORMED = re.compile(r"[\x21-\x7e]{1,255}")
WAIT_FOR_TWIN = 2_000  # Milliseconds: PostgreSQL's lock_timeout. SQLite has its own, of the connection.
LOCK_NOT_AVAILABLE = "55P03"  # PostgreSQL's code for it; its words depend on the server's language.

# The wait must end before the statement does, whose end would look like a failing database.
SHARE_OF_STATEMENT = 0.5
LIMITS = """
SELECT current_setting('lock_timeout'),
    (extract(epoch FROM current_setting('statement_timeout')::interval) * 1000)::bigint
"""

View = Callable[..., Response]


def idempotent(create: View) -> View:
    """Decorate a viewset's method that creates: with an Idempotency-Key it runs once."""

    @functools.wraps(create)
    def wrapper(self: Any, request: Request, *args: Any, **kwargs: Any) -> Any:
        key = request.META.get("HTTP_IDEMPOTENCY_KEY")
        if key is None:
            return create(self, request, *args, **kwargs)
        if not WELL_FORMED.fullmatch(key):
            message = "`Idempotency-Key` must have 1 to 255 visible ASCII characters."
            raise ApiError(ErrorCode.INVALID_PARAMETER, message)
        return in_thread(run_once, key, request, lambda: create(self, request, *args, **kwargs))

    return wrapper


def run_once(key: str, request: Request, act: Callable[[], Response]) -> Response:
    """Act and keep the answer, or replay the one that is kept. What raises keeps nothing."""
    sent = fingerprint(request)
    with transaction.atomic():
        record, is_new = claim(caller_of(request).account_id, key, sent)
        if not is_new:
            return replay(record, sent)
        response = act()
        record.status = response.status_code
        record.location = response.headers.get("Location", "")
        record.body = response.content
        record.save(update_fields=["status", "location", "body"])
    return response


def claim(account_id: int, key: str, sent: str) -> tuple[IdempotencyRecord, bool]:
    """Return the key's record, and whether this request has just made it. Raises ApiError 409."""
    records = IdempotencyRecord.objects.filter(account_id=account_id, key=key)
    try:
        with short_wait():
            records.filter(created_at__lte=timezone.now() - KEPT).delete()
            return records.get_or_create(account_id=account_id, key=key, defaults={"fingerprint": sent})
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) != LOCK_NOT_AVAILABLE:
            raise
        raise ApiError(ErrorCode.IDEMPOTENCY_KEY_IN_USE) from None


@contextmanager
def short_wait() -> Iterator[None]:
    """Wait only a while for a locked row, on PostgreSQL; what comes after waits as it always does."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute(LIMITS)
        before, statement_timeout = cursor.fetchone()
        wait = WAIT_FOR_TWIN
        if statement_timeout:  # 0 is no limit.
            wait = max(1, min(wait, int(statement_timeout * SHARE_OF_STATEMENT)))
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [str(wait)])
        yield  # An error ends the transaction, and the setting with it.
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [before])


def replay(record: IdempotencyRecord, sent: str) -> Response:
    """Return the first answer, byte for byte. Raises ApiError 422 for another request."""
    if record.fingerprint != sent:
        raise ApiError(ErrorCode.IDEMPOTENCY_KEY_REUSED)
    headers = {"Location": record.location} if record.location else {}
    headers["Idempotent-Replayed"] = "true"
    return Response.of_bytes(bytes(record.body), record.status or 0, headers)


def fingerprint(request: Request) -> str:
    """Return what tells two requests apart: method, path, and the value of the body, not its spelling."""
    # The parser makes Decimals. In a list, 1.0 is not the same as "1.0".
    body = json.dumps(request.data, sort_keys=True, default=lambda number: [str(number)])
    return hashlib.sha256(f"{request.method} {request.path}\n{body}".encode()).hexdigest()
