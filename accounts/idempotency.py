"""Idempotent requests with `Idempotency-Key` (D31).

A request first inserts its record, in the same transaction as its write, so that a crash leaves both or
neither. A concurrent duplicate waits for the record at the unique index, then replays the stored response.
"""

import functools
import hashlib
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, OperationalError, connection, transaction
from django.utils import timezone
from psycopg.errors import LockNotAvailable
from rest_framework.request import Request

from accounts.keys.identity import get_caller
from accounts.models import IdempotencyRecord
from petstore.api.errors import ApiError, ErrorCode, invalid_parameter
from petstore.api.responses import Response, from_drf
from petstore.db.event_loop.compiled_reads import Read
from petstore.db.identity import is_postgresql
from petstore.observability.redaction import contains_key

RETENTION = timedelta(hours=24)
KEY_RE = re.compile(r"[\x21-\x7e]{1,255}")
DUPLICATE_WAIT = 2_000  # Milliseconds; PostgreSQL only. SQLite uses the timeout of the connection.
# The parser produces Decimals. No body has a member named NUL, so 1.5 and "1.5" get distinct fingerprints.
CANONICAL_JSON = json.JSONEncoder(sort_keys=True, default=lambda decimal: {"\0": str(decimal)})

# The wait must end before statement_timeout, which would look like a failing database. The request's own
# writes use the lock_timeout of the session's start again.
LIMIT_LOCK_WAIT = """
SELECT set_config('lock_timeout', (
    CASE WHEN timeout_ms = 0 THEN %(wait_ms)s
        ELSE least(%(wait_ms)s, greatest(1, timeout_ms / 2)) END)::text, true)
FROM (
    SELECT (extract(epoch FROM current_setting('statement_timeout')::interval) * 1000)::bigint AS timeout_ms
) AS statement
"""
RESTORE_LOCK_WAIT = "SET LOCAL lock_timeout TO DEFAULT"

FIELDS = ("id", "fingerprint", "status", "location", "body", "created_at")
RECORDS = Read(IdempotencyRecord, lambda: IdempotencyRecord.objects.values(*FIELDS))

StoredRecord = dict[str, Any]


class ConcurrentDuplicateError(Exception):
    """Another request with the same key committed its record first."""


def idempotent(create: Callable[..., Response]) -> Callable[..., Response]:
    """Decorate a viewset's create method so that it writes once per Idempotency-Key.

    With a key, the method runs in the transaction that stores its response.
    """

    @functools.wraps(create)
    def wrapper(self: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        key = request.META.get("HTTP_IDEMPOTENCY_KEY")
        if key is None:
            return create(self, request, *args, **kwargs)
        if not KEY_RE.fullmatch(key):
            message = "`Idempotency-Key` must have 1 to 255 visible ASCII characters."
            raise invalid_parameter(message)
        if contains_key(key):
            raise invalid_parameter("`Idempotency-Key` must not contain an API key.")
        account_id = get_caller(request).account_id
        claim = IdempotencyRecord(
            account_id=account_id, idempotency_key=key, fingerprint=compute_fingerprint(request)
        )
        records = RECORDS.where(account_id=account_id, idempotency_key=key)
        record = records.fetch_one()
        if record is not None and is_fresh(record):
            return replay(record, claim)
        try:
            with transaction.atomic():
                claim_key(claim, expired=record)
                response = from_drf(create(self, request, *args, **kwargs))
                claim.status, claim.body = response.status_code, response.content
                claim.location = response.headers.get("Location", "")
                claim.save(update_fields=["status", "location", "body"])
        except ConcurrentDuplicateError:
            record = records.fetch_one()
            if record is None or not is_fresh(record):  # It was deleted or has expired since.
                raise ApiError(ErrorCode.IDEMPOTENCY_KEY_IN_USE) from None
            return replay(record, claim)
        return response

    return wrapper


def is_fresh(record: StoredRecord) -> bool:
    return bool(record["created_at"] > timezone.now() - RETENTION)


def claim_key(claim: IdempotencyRecord, *, expired: StoredRecord | None) -> None:
    """Insert the record, in place of an expired one.

    Raises ConcurrentDuplicateError, or ApiError 409 if a duplicate is in progress after DUPLICATE_WAIT.
    """
    try:
        if is_postgresql():
            execute(LIMIT_LOCK_WAIT, {"wait_ms": DUPLICATE_WAIT})
        if expired is not None:
            IdempotencyRecord.objects.filter(pk=expired["id"]).delete()
        claim.save(force_insert=True)
        if is_postgresql():
            execute(RESTORE_LOCK_WAIT)
    except IntegrityError:
        raise ConcurrentDuplicateError from None
    except OperationalError as error:
        if not isinstance(error.__cause__, LockNotAvailable):
            raise
        raise ApiError(ErrorCode.IDEMPOTENCY_KEY_IN_USE) from None


def execute(sql: str, parameters: dict[str, int] | None = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)


def replay(record: StoredRecord, claim: IdempotencyRecord) -> Response:
    """Build the response from the record. Raises ApiError 422 if the fingerprint differs."""
    if record["fingerprint"] != claim.fingerprint:
        raise ApiError(ErrorCode.IDEMPOTENCY_KEY_REUSED)
    headers = {"Location": record["location"]} if record["location"] else {}
    headers["Idempotent-Replayed"] = "true"
    return Response.from_bytes(bytes(record["body"]), record["status"], headers)


def compute_fingerprint(request: Request) -> str:
    """Hash the method, the path and the parsed body, so that JSON formatting makes no difference."""
    body = CANONICAL_JSON.encode(request.data)
    return hashlib.sha256(f"{request.method} {request.path}\n{body}".encode()).hexdigest()
