"""SIGTERM in a worker: at no moment of its life is one lost.

While it loads, the signal ends it. From when the loop has a handler until it runs, uvloop would take the
signal and forget it: so it is held back by then, and comes when the loop runs.
"""

import signal

SIGTERM = {signal.SIGTERM}


class Process:
    """Whether this process is a worker: tests and commands load what it loads, and hold nothing back."""

    is_worker = False


def begin() -> None:
    """Let the signal end this process, a new worker."""
    Process.is_worker = True
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGTERM)


def hold_back() -> None:
    """Hold it back from a worker, and from the threads that it starts from now on."""
    if Process.is_worker:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGTERM)


def let_come() -> None:
    """Let the main thread hear it."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGTERM)
