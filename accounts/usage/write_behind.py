"""Write-behind of usage counters, so that no request waits for a write.

Each process collects counters and rejections. It writes them every few seconds and at exit;
a crash loses only the batch that was not yet written. Counters are written in one transaction, and a failed
batch is merged into the next. It is counted twice only if the connection was lost during a COMMIT that had
succeeded. Limits don't depend on these counters.
"""

import atexit
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.util import Finalize

from django.conf import settings
from django.db import Error, connection, transaction

from accounts.events import warnings
from accounts.keys import key_format
from accounts.keys.key_format import ParsedKey
from accounts.models import WebhookAttempt, get_signing_pepper_number
from accounts.quota.limits import DAY, HOUR, MINUTE, SECOND, RateLimitDecision, to_datetime
from accounts.usage import minute_counts, rejection_log, retention
from accounts.usage.batch import Batch, write_digests
from accounts.usage.rejection_log import MAX_DENIED_PER_WRITE, MAX_PER_WRITE, RejectedRequest
from accounts.webhooks import backlog
from petstore.api.context import Caller
from petstore.audit.models import FailedSignIn
from petstore.db.batches import delete_in_batches
from petstore.observability.metrics import BACKGROUND_FAILURES, count_dropped_rejections
from petstore.sign_in.models import AttemptCounter

logger = logging.getLogger(__name__)

WRITE_INTERVAL_SECONDS = 5  # The documentation promises 10.
CLEANUP_INTERVAL_SECONDS = 60
MAX_REHASHES = 500  # Keys per write. The others are rehashed at their next use.


class UsageRecorder:
    def __init__(self) -> None:
        self._batch = Batch()
        self._hour = 0
        self._logged: Counter[str] = Counter()  # Rejections logged this hour, by the name of the limit.
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._stopping = threading.Event()

    def count(self, caller: Caller, decision: RateLimitDecision) -> None:
        key_day = (caller.key_id, decision.day)
        with self._lock:
            batch = self._batch
            batch.last_used[caller.key_id] = decision.now
            if not decision.banned:  # The what-if simulation ignores bans.
                batch.minutes[caller.account_id, decision.now // MINUTE] += 1
            if not decision.admitted:
                batch.rejections[key_day] += 1
                return
            batch.requests[key_day] += 1

    def record_key_use(self, caller: Caller, now: int) -> None:
        """Record a use of a key that does not count as a request."""
        with self._lock:
            self._batch.last_used[caller.key_id] = now

    def rehash(self, key: ParsedKey, key_id: int, pepper_number: int) -> None:
        """Schedule a new digest if the pepper is outdated. A key's text is known only while it is used."""
        signing_number = get_signing_pepper_number()
        if pepper_number >= signing_number:
            return
        with self._lock:
            digests = self._batch.digests
            if key_id not in digests and len(digests) < MAX_REHASHES:
                digest = key_format.compute_digest(key, settings.API_KEY_PEPPERS[signing_number])
                digests[key_id] = signing_number, digest

    def record_rejection(self, rejected: RejectedRequest) -> None:
        """Log a rejection, or only count it if a limit of the log is reached."""
        hour, hourly_limits = rejected.rejected_at // HOUR, rejected.hourly_limits
        max_per_write = MAX_DENIED_PER_WRITE if rejected.decision is None else MAX_PER_WRITE
        with self._lock:
            if hour != self._hour:
                self._hour, self._logged = hour, Counter()
            batch = self._batch
            fits_in_hour = all(self._logged[name] < limit for name, limit in hourly_limits.items())
            if fits_in_hour and len(batch.rejected_requests) < max_per_write:
                self._logged.update(hourly_limits.keys())
                batch.rejected_requests.append(rejected)
            else:
                batch.dropped_rejections += 1

    def record_deprecated_call(self, caller: Caller, operation: str, now: int) -> None:
        with self._lock:
            call = (caller.account_id, operation, now // DAY)
            self._batch.deprecated_calls[call] += 1
            self._batch.last_deprecated_calls[call] = now

    def record_response(self, caller: Caller, operation: str, status: int, now: int) -> None:
        with self._lock:
            self._batch.responses[caller.account_id, operation, status, now // HOUR] += 1

    def start(self) -> None:
        """Start the thread that writes every few seconds. Also write at exit."""
        threading.Thread(target=self._run, name="usage", daemon=True).start()
        atexit.register(self.stop)
        Finalize(None, self.stop, exitpriority=1)  # Worker processes skip atexit.

    def stop(self) -> None:
        self._stopping.set()
        self.write()

    def _run(self) -> None:
        last_cleanup = time.monotonic()
        while not self._stopping.wait(WRITE_INTERVAL_SECONDS):
            run_safely("usage", self.write)
            if time.monotonic() - last_cleanup >= CLEANUP_INTERVAL_SECONDS:
                last_cleanup = time.monotonic()
                run_safely("cleanup", clean_up)
                run_safely("warnings", warnings.send_missed_warnings)
                run_safely("webhook metrics", backlog.measure)

    def write(self) -> None:
        """Write the batch; on a database error, merge it into the next."""
        with self._write_lock:
            with self._lock:
                batch, self._batch = self._batch, Batch()
            if batch == Batch():
                return
            count_dropped_rejections(batch.dropped_rejections)
            batch.dropped_rejections = 0
            # Parts that were written are removed from the batch, so that a retry does not repeat them.
            try:
                write_digests(batch.digests)
                with transaction.atomic():
                    batch.write(time.time_ns() // 1000)
                batch = Batch(rejected_requests=batch.rejected_requests)
                rejection_log.store(batch.rejected_requests)
            except Error:
                BACKGROUND_FAILURES.labels("usage").inc()
                logger.warning("Writing usage failed and will be retried.", exc_info=True)
                with self._lock:
                    batch.merge(self._batch)
                    self._batch = batch


def run_safely(task: str, run: Callable[[], object]) -> None:
    """Run a task and log its failure. Close its connection, since a broken one would fail other tasks."""
    try:
        run()
    except Exception:
        BACKGROUND_FAILURES.labels(task).inc()
        logger.exception("The background task %r failed and will be retried.", task)
    finally:
        with suppress(Error):
            connection.close()


def clean_up(now: int | None = None) -> None:
    """Roll up minute counts and prune old records. `now` is in microseconds since the epoch."""
    now = time.time_ns() // 1000 if now is None else now
    for clean in (
        lambda: minute_counts.roll_up(now),
        lambda: retention.prune(now),
        lambda: rejection_log.prune(now),
        FailedSignIn.objects.prune,
        lambda: sum(delete_in_batches(AttemptCounter.objects.filter(expires__lte=now / SECOND))),
        lambda: WebhookAttempt.objects.prune(to_datetime(now)),
    ):
        try:
            clean()
        except Error:  # The others run all the same.
            BACKGROUND_FAILURES.labels("cleanup").inc()
            logger.warning("Cleanup of old records failed and will be retried.", exc_info=True)


recorder = UsageRecorder()
