"""What lasts of the counting: requests and refusals for each key and day, the last use, bans, and more.

Kept in the process and written behind, every few seconds and at the end, so that no request waits for it;
a crash loses at most that much. A write adds what this process has counted, in one transaction, and what
could not be written is kept for the next one: nothing is counted twice.
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

from accounts.events.warnings import THRESHOLDS, sweep, thresholds_of, warn_of_use
from accounts.keys import key_format
from accounts.keys.identity import Caller
from accounts.keys.key_format import KeyText
from accounts.models import signing_pepper
from accounts.quota.bans import Ban
from accounts.quota.limits import DAY, HOUR, MINUTE, RateLimitDecision, Window
from accounts.usage import minute_counts, rejection_log
from accounts.usage.batch import Batch, write_bans, write_digests
from accounts.usage.rejection_log import KEPT_FOR_A_WRITE, OTHERS_FOR_A_WRITE, Refused
from petstore.backoffice.models import FailedSignIn
from petstore.event_loop.threads import in_thread
from petstore.observability.metrics import REFUSALS_NOT_KEPT

logger = logging.getLogger(__name__)

WRITE_EVERY = 5  # Seconds; the promise is 10.
TIDY_EVERY = 60  # Seconds.
MOST_REHASHED = 500  # Keys in one write; the others come with their next use.


class UsageRecorder:
    def __init__(self) -> None:
        self._batch = Batch()
        self._hour = 0
        self._kept: Counter[str] = Counter()  # Refusals of this hour, by what they are a share of.
        self._day = 0
        self._reached: set[tuple[int, int, int]] = set()  # Account, day, and threshold.
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._stopping = threading.Event()
        self._wake = threading.Event()

    def count(self, caller: Caller, decision: RateLimitDecision, *, elsewhere: bool = False) -> None:
        """Note one request. `elsewhere`: counted by a store beside the database."""
        key_day = (caller.key_id, decision.day)
        with self._lock:
            batch = self._batch
            batch.last_used[caller.key_id] = decision.now
            day = decision.windows[-1]
            if day.used * 100 >= day.limit * THRESHOLDS[0]:
                self._reach(caller.account_id, decision.day, day)
            if not decision.banned:  # No other numbers would have admitted it.
                batch.loads[caller.account_id, decision.now // MINUTE] += 1
            if not decision.admitted:
                batch.refusals[key_day] += 1
                return
            batch.requests[key_day] += 1
            if elsewhere:
                batch.elsewhere[caller.account_id, decision.day] += 1

    def use(self, caller: Caller, now: int) -> None:
        """Note that a key was used, by a request that no statistics count."""
        with self._lock:
            self._batch.last_used[caller.key_id] = now

    def _reach(self, account_id: int, day: int, window: Window) -> None:
        """Note each threshold of the day's quota that this process sees passed for the first time."""
        if day != self._day:
            self._day, self._reached = day, set()
        reached = thresholds_of(account_id, day, window.limit, window.used)
        if new := {place: facts for place, facts in reached.items() if place not in self._reached}:
            self._reached.update(new)
            self._batch.reached |= new
            self.wake()  # Nobody else may send a request that shows it.

    def warn_first(self, account_id: int, day: int, limit: int, used: int) -> bool:
        """Warn of what a request is about to reach; tell whether that is in the database.

        Where it is not, `count` notes it for the next write.
        """
        reached = thresholds_of(account_id, day, limit, used)
        with self._lock:
            if max(reached) in self._batch.reached:  # The database was away a moment ago.
                return False
        try:
            in_thread(warn_of_use, reached)
        except Error:
            return False
        return True

    def owes(self, account_id: int) -> bool:
        """Tell whether the database may lack requests of this account that another store has counted."""
        with self._lock:
            return self._writing.locked() or any(
                account_id == account for account, _ in self._batch.elsewhere
            )

    def rehash(self, key: KeyText, key_id: int, pepper_number: int) -> None:
        """Note a proven key under an older pepper, to be hashed with the one that signs now.

        Only when a key is used is it known. So an old pepper can leave API_KEY_PEPPERS when `list_peppers`
        says that no key hangs on it.
        """
        number = signing_pepper()
        if pepper_number < number:
            with self._lock:
                digests = self._batch.digests
                if key_id not in digests and len(digests) < MOST_REHASHED:
                    digests[key_id] = number, key_format.digest(key, settings.API_KEY_PEPPERS[number])

    def refuse(self, refused: Refused) -> None:
        """Keep a refusal for staff to look up, or count it if too many are kept already."""
        hour, shares = refused.at // HOUR, refused.shares
        most = KEPT_FOR_A_WRITE if refused.decision is not None else OTHERS_FOR_A_WRITE
        with self._lock:
            if hour != self._hour:
                self._hour, self._kept = hour, Counter()
            batch = self._batch
            if len(batch.refused) < most and all(self._kept[name] < share for name, share in shares):
                self._kept.update(name for name, _ in shares)
                batch.refused.append(refused)
            else:
                batch.dropped += 1

    def call_deprecated(self, caller: Caller, operation: str, now: int) -> None:
        """Note an admitted call of a deprecated operation; `count` has counted it."""
        with self._lock:
            place = (caller.account_id, operation, now // DAY)
            self._batch.calls[place] += 1
            self._batch.last_called[place] = now

    def ban(self, ban: Ban) -> None:
        """Record a ban now, for staff to see; if no thread or no database is free, with the next write."""
        with self._lock:
            self._batch.bans.append(ban)
        with suppress(Error):
            in_thread(self.write)
        self.wake()  # Redis is told there: who was banned need not wait for that.

    def start(self, chore: Callable[[], object]) -> None:
        """Write every few seconds from now on, in a thread of its own, and once more at the end.

        `chore`: what else is to be done there each time. It may use the database.
        """
        threading.Thread(target=self._run, args=[chore], name="usage", daemon=True).start()
        atexit.register(self.stop)
        Finalize(None, self.stop, exitpriority=1)  # A worker process ends without atexit.

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        self.write()

    def _run(self, chore: Callable[[], object]) -> None:
        tidied = time.monotonic()
        while not self._stopping.is_set():
            self._wake.wait(WRITE_EVERY)
            self._wake.clear()
            do(self.write)
            do(chore)
            if time.monotonic() - tidied >= TIDY_EVERY:
                tidied = time.monotonic()
                do(tidy)
                do(sweep)

    def wake(self) -> None:
        """Write, and do the chore, now; in the thread that does so every few seconds."""
        self._wake.set()

    def write(self) -> None:
        """Write what has gathered; keep it if the database doesn't take it."""
        with self._writing:
            with self._lock:
                batch, self._batch = self._batch, Batch()
            if batch == Batch():
                return
            REFUSALS_NOT_KEPT.inc(batch.dropped)
            batch.dropped = 0
            try:
                with transaction.atomic():
                    write_bans(batch.bans)
                batch.bans = []
                warn_of_use(batch.reached)
                batch.reached = {}
                write_digests(batch.digests)
                with transaction.atomic():
                    batch.write(time.time_ns() // 1000)
                batch = Batch(refused=batch.refused)
                rejection_log.store(batch.refused)
            except Error:
                logger.warning("Usage could not be written; it is kept for the next write.", exc_info=True)
                with self._lock:
                    batch.add(self._batch)
                    self._batch = batch


def do(step: Callable[[], object]) -> None:
    """Do a step, whatever happens, on a connection of its own: one that broke would break them all."""
    try:
        step()
    except Exception:
        logger.exception("A step of what is written behind failed; it comes again.")
    finally:
        with suppress(Error):
            connection.close()


def tidy(now: int | None = None) -> None:
    """Roll up minutes, and delete what is kept no longer. `now`: microseconds since the epoch."""
    now = time.time_ns() // 1000 if now is None else now
    try:
        minute_counts.roll_up(now)
        minute_counts.prune(now)
        rejection_log.prune(now)
        FailedSignIn.objects.prune()
    except Error:
        logger.warning("Old records could not be tidied up; they will be in a minute.", exc_info=True)


recorder = UsageRecorder()
