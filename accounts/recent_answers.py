"""What this worker has answered of late to requests with an `Idempotency-Key`.

Clients that hear nothing send again within seconds, and many of them at once when a database is slow: an
answer that is still here costs it nothing. It is a copy of the record in the database, which never changes
(D31), for whoever sends the same bytes. All others are the record's.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import DEFAULT_DB_ALIAS
from django.http import HttpRequest
from django.utils import timezone

from petstore.api.passage import NO_OPERATION, Passage
from petstore.api.responses import Response
from petstore.db.monitor import term

KEPT = timedelta(hours=24)
MOST = 1024  # Answers that are here, of at most 2 KiB with their requests; the oldest go.
LARGEST = 2048  # Bytes of what a client has chosen of a request, and of its answer.


class Sent(NamedTuple):
    """All of a request that its answer depends on."""

    account_id: int
    key: str
    method: str | None
    path: str
    content_type: str
    body: bytes
    term: int | None  # Of the database: one that takes its place may have lost what was committed.

    @classmethod
    def by(cls, request: HttpRequest, account_id: int, key: str) -> Sent:
        """Return what a request with this key sends. Raises ApiError for a body that is not there."""
        content_type, body = request.META.get("CONTENT_TYPE", ""), request.body
        of = term(DEFAULT_DB_ALIAS)
        return cls(account_id, key, request.method, request.path, content_type, body, of)

    @property
    def length(self) -> int:
        """How many bytes, at least, the client has sent; the key has a bound of its own."""
        return len(self.path) + len(self.content_type) + len(self.body)


def is_fresh(made_at: datetime) -> bool:
    """Tell whether an answer of then is still replayed."""
    return made_at > timezone.now() - KEPT


class Answer(NamedTuple):
    """What a request was answered first, and when it was recorded."""

    status: int
    location: str
    body: bytes
    made_at: datetime

    def replay(self) -> Response:
        """Answer the same again."""
        headers = {"Location": self.location} if self.location else {}
        headers["Idempotent-Replayed"] = "true"
        return Response.of_bytes(self.body, self.status, headers)


class RecentAnswers:
    """The last MOST. Several threads may use it: each step is one of Python's own."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Sent, Answer] = OrderedDict()

    def find(self, sent: Sent) -> Answer | None:
        """Return the answer to such a request, if it is here and still replayed."""
        answer = self._answers.get(sent)
        return answer if answer is not None and is_fresh(answer.made_at) else None

    def keep(self, sent: Sent, answer: Answer) -> None:
        """Keep an answer that is committed, and that was asked for as it was sent before."""
        if sent.term is None or sent.length + len(answer.body) > LARGEST:
            return
        self._answers.pop(sent, None)  # It goes to the end.
        self._answers[sent] = answer
        if len(self._answers) > MOST:
            self._answers.popitem(last=False)


recent = RecentAnswers()


def replay_recent(request: HttpRequest, passage: Passage) -> Response | None:
    """Return the answer to a request that came before, if it is still here; a step of the gate.

    A request that was answered once passes whatever its view would check. Raises ApiError for a body that
    is not there.
    """
    key = request.META.get("HTTP_IDEMPOTENCY_KEY")
    if key is None or passage.caller is None or passage.operation is NO_OPERATION:
        return None
    answer = recent.find(Sent.by(request, passage.caller.account_id, key))
    return answer.replay() if answer is not None else None
