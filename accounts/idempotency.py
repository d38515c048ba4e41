"""Requests that may be sent again: `Idempotency-Key` (D31).

The record is written in the transaction of the request's own write, so a crash leaves both or neither. In
a transaction of several statements it goes in first: a twin that runs at the same time waits for it at the
unique index, then replays the answer. One new row and its record are one statement, unless a twin is there.
"""

import functools
import hashlib
import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from django.conf import settings
from django.db import IntegrityError, OperationalError, models
from django.utils import timezone
from rest_framework.request import Request

from accounts.caller import caller_of
from accounts.models import EventDraft, IdempotencyRecord
from accounts.recent_answers import Answer, Sent, is_fresh, recent
from petstore.api.errors import ApiError, ErrorCode
from petstore.api.responses import Response
from petstore.db.vendor import is_postgresql
from petstore.loop.compiled_reads import Read
from petstore.loop.compiled_writes import OwnSql, atomic, insert, update
from petstore.loop.linked_inserts import KEY, AroundKey, insert_with, try_insert_with

CREATED = 201
WELL_FORMED = re.compile(r"[\x21-\x7e]{1,255}")
WAIT_FOR_TWIN = 2_000  # Milliseconds: PostgreSQL's lock_timeout. SQLite has its own, of the connection.
# The parser makes Decimals. No body has this name: 1.5 is neither the same as "1.5" nor as ["1.5"].
SPELLED_ALIKE = json.JSONEncoder(sort_keys=True, default=lambda number: {"\0": str(number)})
LOCK_NOT_AVAILABLE = "55P03"  # PostgreSQL's code for it; its words depend on the server's language.

# The wait ends before the statement does, whose end would look like a failing database. What comes after
# waits as it always does.
WAIT_BRIEFLY = OwnSql("""
SELECT set_config('petstore.lock_timeout', current_setting('lock_timeout'), true),
    set_config('lock_timeout', (
        CASE WHEN most = 0 THEN %(twin)s ELSE least(%(twin)s, greatest(1, most / 2)) END)::text, true)
FROM (
    SELECT (extract(epoch FROM current_setting('statement_timeout')::interval) * 1000)::bigint AS most
) AS statement
""")
WAIT_AS_BEFORE = OwnSql("SELECT set_config('lock_timeout', current_setting('petstore.lock_timeout'), true)")
FORGET = OwnSql("DELETE FROM accounts_idempotencyrecord WHERE id = %(pk)s RETURNING id")
RECORDS = (IdempotencyRecord._meta.db_table, *(one.name for one in IdempotencyRecord._meta.constraints))

ANSWERS = Read(
    IdempotencyRecord,
    lambda: IdempotencyRecord.objects.values(
        "id", "fingerprint", "status", "location", "body", "created_at"
    ),
)

Row = dict[str, Any]
Write = Callable[[], Response]


class Claim(NamedTuple):
    """An account's key, and the request that came with it."""

    sent: Sent
    fingerprint: str
    made_at: datetime

    def kept(self) -> Row | None:
        return ANSWERS.where(account_id=self.sent.account_id, key=self.sent.key).one()

    def record(self) -> IdempotencyRecord:
        """Return a new record, which has no answer yet."""
        account_id, key = self.sent.account_id, self.sent.key
        return IdempotencyRecord(account_id=account_id, key=key, fingerprint=self.fingerprint)

    def done(self, response: Response) -> Response:
        """Take note of the first answer, which is committed with its record; return it."""
        location = response.headers.get("Location", "")
        answer = Answer(response.status_code, location, response.content, self.made_at)
        recent.keep(self.sent, answer)
        return response


class OneRow:
    """A write of one row and its event, whose answer is known but for the row's key."""

    def __init__(self, new: models.Model, event: EventDraft, data: dict[str, Any], path: str) -> None:
        """Take both rows, what is answered apart from the id, and the path of its URL up to the id."""
        self._new = new
        self._event = event
        self._body = AroundKey.json(data | {"id": KEY})
        self._location = AroundKey(f"{settings.BASE_URL}{path}")

    def __call__(self) -> Response:
        """Write and answer. Raises what Django raises for a query."""
        insert_with(self._new, self._event)
        return self._answer()

    def try_with(self, record: IdempotencyRecord) -> Response | None:
        """Write, with the answer in the record, and answer. None: `try_insert_with` has done nothing."""
        record.status, record.location, record.body = CREATED, self._location, self._body
        return self._answer() if try_insert_with(self._new, self._event, record) else None

    def _answer(self) -> Response:
        headers = {"Location": self._location.text(self._new.pk)}
        return Response.of_bytes(self._body.text(self._new.pk).encode(), CREATED, headers)


def idempotent(create: Callable[..., Write]) -> Callable[..., Response]:
    """Decorate a viewset's method that creates: with an Idempotency-Key it writes once.

    The method checks the request, and returns what writes and answers, as one transaction with the key's:
    a OneRow, if that is all, else any function.
    """

    @functools.wraps(create)
    def wrapper(self: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        key = request.META.get("HTTP_IDEMPOTENCY_KEY")
        if key is None:
            return create(self, request, *args, **kwargs)()
        if not WELL_FORMED.fullmatch(key):
            message = "`Idempotency-Key` must have 1 to 255 visible ASCII characters."
            raise ApiError(ErrorCode.INVALID_PARAMETER, message)
        sent = Sent.by(request._request, caller_of(request).account_id, key)
        claim = Claim(sent, fingerprint(request), timezone.now())
        kept = claim.kept()
        if kept is not None and is_fresh(kept["created_at"]):
            return replay(kept, claim)
        write = create(self, request, *args, **kwargs)
        if isinstance(write, OneRow) and kept is None:
            response = write.try_with(claim.record())
            if response is not None:
                return claim.done(response)
        return write_or_replay(write, claim, kept)

    return wrapper


def write_or_replay(write: Write, claim: Claim, old: Row | None) -> Response:
    """Write once, or return the answer to a twin, for which it waits. Raises ApiError 409, 422."""
    try:
        return claim.done(write_once(write, claim, old))
    except IntegrityError:
        twin = claim.kept()
        if twin is None or not is_fresh(twin["created_at"]):  # What was written is at fault itself.
            raise
        return replay(twin, claim)
    except OperationalError as error:
        if not waited_for_twin(error.__cause__, old):
            raise
        raise ApiError(ErrorCode.IDEMPOTENCY_KEY_IN_USE) from None


@atomic
def write_once(write: Write, claim: Claim, old: Row | None) -> Response:
    """Write, and keep the answer. Raises IntegrityError if a twin has done so; what raises keeps nothing.

    `old`: the key's record of more than a day ago, which goes; a twin or a command may have deleted it.
    """
    if is_postgresql():
        WAIT_BRIEFLY.row(wait=False, twin=WAIT_FOR_TWIN)
    if old is not None:
        FORGET.row(wait=False, pk=old["id"])
    insert(claim.record(), wait=False)
    if is_postgresql():
        WAIT_AS_BEFORE.row(wait=False)
    response = write()
    answer = {
        "status": response.status_code,
        "location": response.headers.get("Location", ""),
        "body": response.content,
    }
    where = {"account": claim.sent.account_id, "key": claim.sent.key}
    update(IdempotencyRecord, where, wait=False, **answer)
    return response


def waited_for_twin(cause: Any, old: Row | None) -> bool:
    """Tell whether a wait for a twin's record has ended it, not one of the request's own write.

    What PostgreSQL was at depends on the server's language, but not the name of the table or index in it.
    """
    if getattr(cause, "sqlstate", None) != LOCK_NOT_AVAILABLE:
        return False
    context = cause.diag.context
    if context is None:  # Of those who wait for an old record, it tells only the first what for.
        return old is not None
    return any(name in context for name in RECORDS)


def replay(kept: Row, claim: Claim) -> Response:
    """Return the first answer, byte for byte. Raises ApiError 422 for another request."""
    if kept["fingerprint"] != claim.fingerprint:
        raise ApiError(ErrorCode.IDEMPOTENCY_KEY_REUSED)
    answer = Answer(kept["status"], kept["location"], bytes(kept["body"]), kept["created_at"])
    recent.keep(claim.sent, answer)
    return answer.replay()


def fingerprint(request: Request) -> str:
    """Return what tells two requests apart: method, path, and the value of the body, not its spelling."""
    body = SPELLED_ALIKE.encode(request.data)
    return hashlib.sha256(f"{request.method} {request.path}\n{body}".encode()).hexdigest()
