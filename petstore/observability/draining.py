"""Ending without losing a request: first be found not ready, then stop listening.

A proxy that sends requests to this service learns from /readyz that it should stop. Until it has, the
service goes on answering, and asks whoever holds a connection to come back on another one.
`manage.py serve` begins this when it hears SIGTERM, and ends it after DRAIN_SECONDS.

The process that keeps the workers imports this module and nothing of Django.
"""

import mmap

# Anonymous memory, which the workers, forked from the process that hears the signal, share with it.
_draining = mmap.mmap(-1, 1)


def begin() -> None:
    """Let every worker say that it is not ready any more."""
    _draining[0] = 1


def is_draining() -> bool:
    """Tell whether the service was told to end and still answers."""
    return _draining[0] == 1
