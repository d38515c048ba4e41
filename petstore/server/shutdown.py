"""How a process that serves ends; the process that keeps the workers imports this, and nothing of Django.

It ends without losing a request. First it is found not ready: a proxy that sends requests to this service
learns from /readyz that it should stop. Until it has, the service goes on answering, and asks whoever holds
a connection to come back on another one. `manage.py serve` begins this when it hears SIGTERM, and ends it
after DRAIN_SECONDS.

Then a worker hears SIGTERM, and at no moment of its life is one lost. While it loads, the signal ends it.
From when the loop has a handler until it runs, uvloop would take the signal and forget it: so it is held
back by then, and comes when the loop runs.
"""

import mmap
import signal

SIGTERM = {signal.SIGTERM}

# Anonymous memory, which the workers, forked from the process that hears the signal, share with it.
_draining = mmap.mmap(-1, 1)


class Process:
    """Whether this process is a worker: tests and commands load what it loads, and hold nothing back."""

    is_worker = False


def start_draining() -> None:
    """Let every worker say that it is not ready any more."""
    _draining[0] = 1


def is_draining() -> bool:
    """Tell whether the service was told to end and still answers."""
    return _draining[0] == 1


def start_worker_process() -> None:
    """Let SIGTERM end this process, a new worker."""
    Process.is_worker = True
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGTERM)


def block_sigterm() -> None:
    """Hold it back from a worker, and from the threads that it starts from now on."""
    if Process.is_worker:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGTERM)


def unblock_sigterm() -> None:
    """Let the main thread hear it."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGTERM)
