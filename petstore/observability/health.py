"""Checks that can't hang whoever asks, and never run twice at once.

Each check runs in a thread of its own, because nothing else could leave one that hangs; whoever asks while
it runs gets that one's answer. So however many ask and however long a check hangs, it holds one thread.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from time import monotonic

logger = logging.getLogger(__name__)

NO_ANSWER = "no answer"
FAILED = "failed"


class Check:
    """A function that examines a part of the service and returns its state in a word."""

    def __init__(self, examine: Callable[[], str]) -> None:
        self._examine = examine
        self._lock = threading.Lock()
        self._running: Future[str] | None = None

    def start(self) -> "Future[str]":
        """Return the run that is under way, or begin one."""
        with self._lock:
            if self._running is None:
                self._running = Future()
                threading.Thread(target=self._run, args=[self._running], daemon=True).start()
            return self._running

    def _run(self, run: "Future[str]") -> None:
        try:
            state = self._examine()
        except Exception:  # Whatever it is, the part is not well.
            logger.exception("A check of readiness failed.")
            state = FAILED
        with self._lock:
            self._running = None
        run.set_result(state)


def states(checks: Mapping[str, Check], limit: float) -> dict[str, str]:
    """Run the checks side by side; after that many seconds the state of the others is `no answer`."""
    end = monotonic() + limit
    runs = {name: check.start() for name, check in checks.items()}
    found = {}
    for name, run in runs.items():
        try:
            found[name] = run.result(max(0, end - monotonic()))
        except TimeoutError:
            found[name] = NO_ANSWER
    return found
