"""Graceful shutdown of the supervisor and its workers. Imports nothing of Django.

On SIGTERM the service drains: readiness fails, so that proxies stop sending requests, and responses close
their connections. After DRAIN_SECONDS `manage.py serve` sends SIGTERM to the workers.

A worker must not lose that signal. While it loads, the signal ends it. Between the installation of the
loop's handler and the start of the loop, uvloop would discard it, so it is blocked until the loop runs.
"""

import mmap
import signal

SIGTERM = {signal.SIGTERM}

# Anonymous memory that forked workers share with the supervisor, which receives the signal.
_draining = mmap.mmap(-1, 1)


class Process:
    """Whether this process is a worker. Tests and commands load the same modules."""

    is_worker = False


def start_draining() -> None:
    _draining[0] = 1


def is_draining() -> bool:
    return _draining[0] == 1


def start_worker_process() -> None:
    Process.is_worker = True
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGTERM)


def block_sigterm() -> None:
    """Block SIGTERM in a worker, including in threads started afterwards."""
    if Process.is_worker:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGTERM)


def unblock_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGTERM)
