"""Idempotent requests with `Idempotency-Key` (D31).

The record is inserted first, in the transaction of the request's own write, so a crash leaves both or
neither. A concurrent duplicate waits for it at the unique index, then replays the stored response.
"""

import functools
import hashlib
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, OperationalError
from django.utils import timezone
from psycopg.errors import LockNotAvailable
from rest_framework.request import Request

from accounts.keys.identity import get_caller
from accounts.models import IdempotencyRecord
from petstore.api.errors import ApiError, ErrorCode
from petstore.api.responses import Response
from petstore.db.identity import is_postgresql
from petstore.event_loop.compiled_reads import Read
from petstore.event_loop.compiled_writes import RawStatement, atomic, insert, update

RETENTION = timedelta(hours=24)
WELL_FORMED = re.compile(r"[\x21-\x7e]{1,255}")
DUPLICATE_WAIT = 2_000  # Milliseconds: lock_timeout on PostgreSQL. SQLite uses the connection's timeout.
# The parser produces Decimals. The NUL member, impossible in a body, keeps 1.5 distinct from "1.5".
CANONICAL_JSON = json.JSONEncoder(sort_keys=True, default=lambda number: {"\0": str(number)})

# Wait less than statement_timeout, which would look like a failing database. The request's own writes then
# use the original lock_timeout.
LIMIT_LOCK_WAIT = RawStatement("""
SELECT set_config('petstore.lock_timeout', current_setting('lock_timeout'), true),
    set_config('lock_timeout', (
        CASE WHEN most = 0 THEN %(wait_ms)s ELSE least(%(wait_ms)s, greatest(1, most / 2)) END)::text, true)
FROM (
    SELECT (extract(epoch FROM current_setting('statement_timeout')::interval) * 1000)::bigint AS most
) AS statement
""")
RESTORE_LOCK_WAIT = RawStatement(
    "SELECT set_config('lock_timeout', current_setting('petstore.lock_timeout'), true)"
)
DELETE_RECORD = RawStatement("DELETE FROM accounts_idempotencyrecord WHERE id = %(pk)s RETURNING id")

RECORDS = Read(
    IdempotencyRecord,
    lambda: IdempotencyRecord.objects.values(
        "id", "fingerprint", "status", "location", "body", "created_at"
    ),
)

Stored = dict[str, Any]
Write = Callable[[], Response]


class ConcurrentDuplicateError(Exception):
    """Another request with the same key committed its record first."""


def idempotent(create: Callable[..., Write]) -> Callable[..., Response]:
    """Decorate a viewset's create method, so that it writes once per Idempotency-Key.

    The method validates the request and returns a function that writes and responds, in one transaction.
    """

    @functools.wraps(create)
    def wrapper(self: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        key = request.META.get("HTTP_IDEMPOTENCY_KEY")
        if key is None:
            return create(self, request, *args, **kwargs)()
        if not WELL_FORMED.fullmatch(key):
            message = "`Idempotency-Key` must have 1 to 255 visible ASCII characters."
            raise ApiError(ErrorCode.INVALID_PARAMETER, message)
        account_id = get_caller(request).account_id
        claim = IdempotencyRecord(account_id=account_id, key=key, fingerprint=fingerprint(request))
        stored = look_up(claim)
        if stored is not None and is_fresh(stored):
            return replay(stored, claim)
        write = create(self, request, *args, **kwargs)
        try:
            return write_once(write, claim, expired=stored)
        except ConcurrentDuplicateError:
            stored = look_up(claim)
            if stored is None or not is_fresh(stored):  # Pruned concurrently.
                raise ApiError(ErrorCode.IDEMPOTENCY_KEY_IN_USE) from None
            return replay(stored, claim)

    return wrapper


def look_up(claim: IdempotencyRecord) -> Stored | None:
    return RECORDS.where(account_id=claim.account_id, key=claim.key).fetch_one()


def is_fresh(stored: Stored) -> bool:
    made_at: Any = stored["created_at"]
    return bool(made_at > timezone.now() - RETENTION)


@atomic
def write_once(write: Write, claim: IdempotencyRecord, *, expired: Stored | None) -> Response:
    """Claim the key, write, and store the response, atomically.

    Raises ConcurrentDuplicateError, and ApiError 409 after waiting DUPLICATE_WAIT for a duplicate.
    """
    try:
        insert_claim(claim, expired)
    except IntegrityError:
        raise ConcurrentDuplicateError from None
    except OperationalError as error:
        if not isinstance(error.__cause__, LockNotAvailable):
            raise
        raise ApiError(ErrorCode.IDEMPOTENCY_KEY_IN_USE) from None
    response = write()
    stored = {
        "status": response.status_code,
        "location": response.headers.get("Location", ""),
        "body": response.content,
    }
    update(IdempotencyRecord, {"pk": claim.pk}, wait=False, **stored)
    return response


def insert_claim(claim: IdempotencyRecord, expired: Stored | None) -> None:
    """Insert the record, after deleting an expired one."""
    if is_postgresql():
        LIMIT_LOCK_WAIT.execute(wait=False, wait_ms=DUPLICATE_WAIT)
    if expired is not None:
        DELETE_RECORD.execute(wait=False, pk=expired["id"])
    insert(claim)
    if is_postgresql():
        RESTORE_LOCK_WAIT.execute(wait=False)


def replay(stored: Stored, claim: IdempotencyRecord) -> Response:
    """Repeat the stored response, byte for byte. Raises ApiError 422 if the fingerprint differs."""
    if stored["fingerprint"] != claim.fingerprint:
        raise ApiError(ErrorCode.IDEMPOTENCY_KEY_REUSED)
    headers = {"Location": stored["location"]} if stored["location"] else {}
    headers["Idempotent-Replayed"] = "true"
    return Response.of_bytes(bytes(stored["body"]), stored["status"], headers)


def fingerprint(request: Request) -> str:
    """Hash method, path and the parsed body, independent of its formatting."""
    body = CANONICAL_JSON.encode(request.data)
    return hashlib.sha256(f"{request.method} {request.path}\n{body}".encode()).hexdigest()
