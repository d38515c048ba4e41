"""The loop that delivers events to webhook endpoints (D54).

A process takes due endpoints under a lease, which is a token and the time until which no other process
takes them. For each it reads a page of events and sends them in order, over one connection if the receiver
keeps it open. Attempts run in threads, but only the thread of the loop uses the database. It records the
outcome together with the new position, if it still has the lease. So if a process is killed, others repeat
what was in flight.

An endpoint for which nothing waits has no next attempt. Each process polls the end of the feed, and wakes
the endpoints whose account has new events, so an event costs nothing for the others.
"""

import logging
import secrets
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from multiprocessing.util import Finalize
from queue import Empty, SimpleQueue
from threading import Event as Signal
from threading import Thread, main_thread
from typing import Any, TypeVar, cast

from django.conf import settings
from django.db import Error, connection, transaction
from django.db.models import Exists, Model, OuterRef, Q, QuerySet
from django.utils import timezone

from accounts.models import Event, Feed, WebhookAttempt, WebhookEndpoint
from accounts.models.events import PUBLIC_ACCOUNT_ID
from accounts.webhooks import signing
from accounts.webhooks.backlog import Message, build_message, fetch_page
from accounts.webhooks.outcomes import apply_outcome, record_requested
from accounts.webhooks.sender import Failure, Outcome, Sender
from accounts.webhooks.targets import get_policy
from petstore.api.int64 import INT64_MAX
from petstore.db.keysets import OneFilterKey
from petstore.observability.metrics import BACKGROUND_FAILURES, WEBHOOK_ATTEMPTS
from petstore.observability.redaction import redact
from petstore.server.shutdown import is_draining

logger = logging.getLogger(__name__)

Row = TypeVar("Row", bound=Model)

POLL_SECONDS = 1.0
SCAN_SECONDS = 60.0  # The interval at which every endpoint is checked, in case a process was killed.
RETRY_SECONDS = 1.0
LEASE = timedelta(seconds=20)  # Longer than an attempt.
SLOW_SECONDS = 1.0  # An attempt that takes longer no longer occupies one of the slots,
MAX_SLOW = 4  # as long as there are at most this many times as many attempts as slots.
BUSY = 0.02  # The share of its time that the main thread works if it serves requests.
STOP_SECONDS = 5.0  # For attempts in flight when the process stops.
CHANGED_FIELDS = (
    "position", "attempts", "first_attempt_at", "failing_since", "last_delivered_at", "next_attempt_at",
    "lease", "disabled_at", "disabled_by",
)  # fmt: skip


@dataclass(eq=False)
class Task:
    """An endpoint whose events are being sent, or a requested attempt."""

    endpoint: WebhookEndpoint
    messages: deque[Message]  # The first is in flight.
    end: int = 0  # The position after these messages.
    requested: WebhookAttempt | None = None
    started_at: datetime = field(default_factory=timezone.now)
    started: float = field(default_factory=time.monotonic)
    headers: dict[str, str] | None = None
    sender: Sender | None = None
    outcome: Outcome = field(default_factory=Outcome)  # Of the last attempt.
    milliseconds: int = 0  # Of all attempts.

    def build_headers(self, now: datetime) -> dict[str, str] | None:
        """Return the signed headers (D52), or None if there is no secret."""
        message, timestamp = self.messages[0], int(now.timestamp())
        message_id = self.requested.message_id if self.requested else f"evt_{message.event_id}"
        keys = self.endpoint.get_secrets(now)
        return {
            "Content-Type": "application/json",
            "User-Agent": f"Petstore-Webhooks/{settings.SPECTACULAR_SETTINGS['VERSION']}",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signing.sign(keys, message_id, timestamp, message.body),
        } if keys else None  # fmt: skip

    def attempt(self, connect: Callable[..., Sender]) -> None:
        """Send the first message. Only this runs in another thread than the loop."""
        self.outcome = Outcome(Failure.SECRET)
        try:
            if self.headers:
                self.sender = self.sender or connect(self.endpoint.url, get_policy())
                keep = len(self.messages) > 1
                self.outcome = self.sender.post(self.messages[0].body, self.headers, keep=keep)
        except Exception:
            self.outcome = Outcome(Failure.RESPONSE)
            logger.exception("Sending a webhook failed unexpectedly.")

    def close(self) -> None:
        if self.sender:
            self.sender.close()

    def build_attempt(self) -> WebhookAttempt:
        attempt, outcome = self.requested or WebhookAttempt(endpoint=self.endpoint), self.outcome
        attempt.event_id, attempt.event_type, _ = self.messages[0]
        attempt.created_at, attempt.due_at = self.started_at, None
        attempt.status, attempt.milliseconds = outcome.status, outcome.milliseconds
        attempt.error, attempt.response = outcome.error or "", redact(outcome.text)
        return attempt


class Dispatcher:
    """Delivers events until it is stopped. `connect` and `now` are parameters for the tests.

    While the main thread serves requests, the loop rests for `rest` seconds per second of CPU time, which
    leaves the CPU to them. Outcomes accumulate until then, so that a backlog takes fewer transactions.
    """

    def __init__(
        self,
        slots: int,
        *,
        rest: float = 0,
        connect: Callable[..., Sender] = Sender,
        now: Callable[[], datetime] = timezone.now,
    ) -> None:
        self._slots, self._rest, self._connect, self._now = slots, rest, connect, now
        self._in_flight: set[Task] = set()
        self._started: SimpleQueue[Task] = SimpleQueue()
        self._finished: SimpleQueue[Task | None] = SimpleQueue()
        self._threads = 0  # They send what has been started.
        self._stopping, self._stopped = Signal(), Signal()
        self._end_of_feed = INT64_MAX  # The events up to this one have woken their endpoints.
        self._next_poll = self._next_scan = 0.0
        self._has_due = False  # Whether endpoints or requested attempts may be due.

    # --- The life of the loop

    def start(self) -> None:
        """Run in a thread, until the process ends."""
        Thread(target=self.run, name="webhooks", daemon=True).start()
        Finalize(None, self.stop, exitpriority=0)  # After the usage has been written.

    def request_stop(self) -> None:
        """Let `run` take no more endpoints, wait a little for what is in flight, and return."""
        self._stopping.set()
        self._finished.put(None)  # Wakes it.

    def stop(self) -> None:
        self.request_stop()
        self._stopped.wait(STOP_SECONDS + POLL_SECONDS + 1)

    def run(self) -> None:
        while not self._stopping.is_set():
            started, used, served = time.monotonic(), time.thread_time(), read_main_thread_time()
            self._run_safely(self.step)
            if read_main_thread_time() - served > BUSY * (time.monotonic() - started):
                self._stopping.wait((time.thread_time() - used) * self._rest)
        deadline = time.monotonic() + STOP_SECONDS
        while self._in_flight and time.monotonic() < deadline:
            self._run_safely(partial(self.collect, POLL_SECONDS / 10))
        self._run_safely(self.release)
        connection.close()
        self._stopped.set()

    def _run_safely(self, run: Callable[[], object]) -> None:
        """Run a part of the loop. Another process repeats its work once the leases have expired."""
        try:
            run()
        except Exception:
            BACKGROUND_FAILURES.labels("webhooks").inc()
            logger.warning("Delivering webhooks failed and will be retried.", exc_info=True)
            with suppress(Error):
                connection.close()
            self._stopping.wait(RETRY_SECONDS)

    def step(self) -> None:
        """Record what has finished, and take what is due."""
        self.collect(self._next_poll - time.monotonic())
        if time.monotonic() >= self._next_poll:
            self._next_poll = time.monotonic() + POLL_SECONDS
            self.poll()
        if self._has_due and (free := self.count_free_slots()) and not is_draining():
            self.take(free)

    # --- Taking endpoints

    def poll(self) -> None:
        """Wake endpoints with new events, and find out whether anything is due. Idle, this is one query."""
        now = self._now()
        is_due = Exists(find_due_endpoints(now)) | Exists(find_requested(now))
        end, self._has_due = Feed.objects.annotate(is_due=is_due).values_list("last_id", "is_due").get()
        is_scan = time.monotonic() >= self._next_scan
        if is_scan or end != self._end_of_feed:
            self._has_due |= wake(None if is_scan else self._end_of_feed, now) > 0
            self._end_of_feed = end
        if is_scan:
            self._next_scan = time.monotonic() + SCAN_SECONDS

    def count_free_slots(self) -> int:
        fast = sum(time.monotonic() - task.started < SLOW_SECONDS for task in self._in_flight)
        return max(0, min(self._slots - fast, self._slots * MAX_SLOW - len(self._in_flight)))

    def take(self, free: int) -> None:
        """Start what is due in the free slots: requested attempts first."""
        now, token = self._now(), secrets.token_hex(8)
        requested = lease(find_requested(now), free, due_at=now + LEASE)
        endpoints = lease(
            find_due_endpoints(now), free - len(requested), lease=token, next_attempt_at=now + LEASE
        )
        self._has_due = len(requested) + len(endpoints) == free
        # One whose events can't be read must not stop the others.
        for attempt in requested:
            self._run_safely(partial(self._open_requested, attempt))
        for endpoint in endpoints:
            self._run_safely(partial(self._open_page, endpoint))

    def _open_requested(self, attempt: WebhookAttempt) -> None:
        if message := build_message(attempt):
            self._start(Task(attempt.endpoint, deque([message]), requested=attempt))
        else:
            WebhookAttempt.objects.filter(pk=attempt.pk).update(due_at=None, error=Failure.EVENT)

    def _open_page(self, endpoint: WebhookEndpoint) -> None:
        """Read and send the next events. Without any, the endpoint sleeps until it is woken."""
        page = fetch_page(endpoint)
        leased = WebhookEndpoint.objects.filter(pk=endpoint.pk, lease=endpoint.lease)
        if page.lost_until is not None:
            with transaction.atomic():
                if leased.update(position=page.lost_until, attempts=0, first_attempt_at=None):
                    lost = WebhookAttempt.Kind.LOST
                    WebhookAttempt.objects.create(endpoint=endpoint, kind=lost, event_id=page.lost_until)
        if page.messages:
            self._start(Task(endpoint, deque(page.messages), page.end))
        else:
            self._put_back(endpoint, page.end)
            leased.update(position=page.end, next_attempt_at=endpoint.next_attempt_at, lease="")

    def _put_back(self, endpoint: WebhookEndpoint, end: int) -> None:
        """End the lease at this position, and let the endpoint sleep if no later event has been seen."""
        endpoint.position, endpoint.lease = end, ""
        is_at_the_end = end >= self._end_of_feed
        endpoint.next_attempt_at = None if is_at_the_end else self._now()
        self._has_due |= not is_at_the_end

    # --- Sending

    def _start(self, task: Task) -> None:
        task.started_at, task.started = self._now(), time.monotonic()
        task.headers = task.build_headers(task.started_at)
        self._in_flight.add(task)
        self._started.put(task)
        if self._threads < len(self._in_flight):
            Thread(target=self._attempt_all, name="webhook", daemon=True).start()
            self._threads += 1

    def _attempt_all(self) -> None:
        while True:
            task = self._started.get()
            task.attempt(self._connect)
            self._finished.put(task)

    def collect(self, seconds: float) -> None:
        """Wait for attempts to finish, record them, and continue with the next events."""
        results = []
        with suppress(Empty):
            results.append(self._finished.get(timeout=max(0, seconds)))
            while True:
                results.append(self._finished.get_nowait())
        finished = {task for task in results if task is not None}
        self._in_flight -= finished
        if finished:
            self._has_due |= any(task.requested for task in finished)
            continued = self.record(finished)
            for task in finished.difference(continued):
                task.close()
            for task in continued:
                self._start(task)

    def record(self, finished: set[Task]) -> list[Task]:
        """Record outcomes; return the tasks whose next event follows."""
        now, attempts, changed, continued = self._now(), [], [], []
        ids = [task.endpoint.pk for task in finished if not task.requested]
        with transaction.atomic():
            endpoints = WebhookEndpoint.objects.select_related("account").select_for_update(of=("self",))
            current = endpoints.order_by("pk").in_bulk(ids)  # A suspension locks them in the same order.
            for task in finished:
                WEBHOOK_ATTEMPTS.labels(task.outcome.error or "success").inc()
                attempt, endpoint = task.build_attempt(), current.get(task.endpoint.pk)
                if task.requested:
                    record_requested(attempt)
                elif endpoint is not None:  # Otherwise it was removed.
                    attempts.append(attempt)
                    if endpoint.lease == task.endpoint.lease and endpoint.disabled_at is None:
                        apply_outcome(endpoint, attempt, task.outcome, now)
                        if self._continue(task, endpoint, now):
                            continued.append(task)
                        changed.append(endpoint)
            WebhookAttempt.objects.bulk_create(attempts)
            # Its single statement is faster than those of `save` or `bulk_update`.
            WebhookEndpoint.objects.bulk_create(
                changed, update_conflicts=True, unique_fields=["pk"], update_fields=CHANGED_FIELDS
            )
        return continued

    def _continue(self, task: Task, endpoint: WebhookEndpoint, now: datetime) -> bool:
        """Extend or end the lease of the locked row; return whether the next event follows at once."""
        # A page of slow attempts would occupy a slot for long, while others wait.
        task.milliseconds += task.outcome.milliseconds
        is_slow = task.milliseconds > SLOW_SECONDS * 1000
        is_stopping = self._stopping.is_set() or endpoint.account.suspended_at is not None
        if len(task.messages) > 1 and not (task.outcome.error or is_slow or is_stopping):
            endpoint.next_attempt_at = now + LEASE
            task.endpoint = endpoint  # Its secret may have been rotated.
            task.messages.popleft()
            return True
        if endpoint.lease:
            self._put_back(endpoint, task.end if len(task.messages) == 1 else endpoint.position)
        return False

    def release(self) -> None:
        """End the leases of what is still in flight, so that another process repeats it at once."""
        tasks, self._in_flight = self._in_flight, set()
        leases = [task.endpoint.lease for task in tasks if not task.requested]
        requested = [task.requested.pk for task in tasks if task.requested]
        now = self._now()
        WebhookEndpoint.objects.filter(lease__in=leases).update(lease="", next_attempt_at=now)
        WebhookAttempt.objects.filter(pk__in=requested).update(due_at=now)


def read_main_thread_time() -> float:
    """Return the CPU seconds of the thread that serves requests, or 0 where they are unknown (macOS)."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return 0.0
    return time.clock_gettime(time.pthread_getcpuclockid(cast("int", main_thread().ident)))


def lease(due: QuerySet[Row], limit: int, **values: Any) -> list[Row]:
    """Lock and return due rows, after setting the values, which keep others from taking them."""
    with transaction.atomic():
        rows = list(due.select_for_update(of=("self",), skip_locked=True)[:limit])
        due.model._base_manager.filter(pk__in=[row.pk for row in rows]).update(**values)
    for row in rows:
        vars(row).update(values)
    return rows


def find_due_endpoints(now: datetime) -> QuerySet[WebhookEndpoint]:
    enabled = WebhookEndpoint.objects.filter(disabled_at=None, account__suspended_at=None)
    due = enabled.filter(next_attempt_at__lte=now)
    return due.select_related("account").order_by("next_attempt_at")


def find_requested(now: datetime) -> QuerySet[WebhookAttempt]:
    """Select the first of each endpoint, so that many with one that hangs don't occupy the slots."""
    pending = WebhookAttempt.objects.filter(due_at__isnull=False)
    earlier = pending.filter(endpoint=OuterRef("endpoint"), pk__lt=OuterRef("pk"))
    allowed = pending.filter(~Exists(earlier), endpoint__account__suspended_at=None)
    due = allowed.filter(due_at__lte=now).exclude(endpoint__disabled_by=WebhookEndpoint.DisabledBy.STAFF)
    return due.select_related("endpoint__account").order_by("due_at")


def wake(after: int | None, now: datetime) -> int:
    """Make sleeping endpoints due that events after this ID may concern, or all with later events.

    Returns how many. Endpoints in suspended accounts wait until the suspension is lifted.
    """
    # PostgreSQL would look for a later event by reading the table, since it expects to find one soon.
    newest = Event.objects.order_by(OneFilterKey("id").desc()).values("pk")
    has_private = Q(position__lt=newest.filter(account_id=OuterRef("account_id"))[:1])
    has_public = Q(types__contains="pet", position__lt=newest.filter(account_id=PUBLIC_ACCOUNT_ID)[:1])
    asleep = WebhookEndpoint.objects.filter(disabled_at=None, next_attempt_at=None)
    if after is not None:
        new = Event.objects.filter(pk__gt=after)
        asleep = asleep.filter(Q(account_id__in=new.values("account_id")) | Q(types__contains="pet"))
    return asleep.filter(has_private | has_public).update(next_attempt_at=now)
