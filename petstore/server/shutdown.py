"""Graceful shutdown of the supervisor and its workers.

On SIGTERM the service drains. Readiness fails, so that proxies stop sending requests, and responses close
their connections. After DRAIN_SECONDS, or at once on a second SIGTERM or Ctrl-C, the supervisor
(DrainingServer) sends SIGTERM to the workers. A worker finishes its requests, writes its usage and exits.

A worker must not lose that signal. Until its threads start, the signal terminates it. uvloop would discard
the signal between installing its handler and starting the loop, so it is blocked until the loop runs.
"""

import asyncio
import mmap
import os
import signal
import sys
from functools import cache

from petstore.server.body_limits import body_timeouts

SIGTERM = {signal.SIGTERM}
STOP_SECONDS = 10  # Time for a worker to finish its requests.
EXIT_SECONDS = 10  # Time for it to write its usage and end its webhooks (7 s) before it is killed.

# The supervisor, which receives the signal, shares this memory with the workers that it forks.
_draining = mmap.mmap(-1, 1)


def start_draining() -> None:
    _draining[0] = 1


def is_draining() -> bool:
    return _draining[0] == 1


def initialize_worker() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGTERM)


def block_sigterm() -> None:
    """Block SIGTERM in a worker, including threads that it starts later."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGTERM)


def handle_sigterm(loop: asyncio.AbstractEventLoop) -> None:
    """On SIGTERM, shorten the deadlines of bodies in transit and stop the worker.

    granian does not expose its signal handlers. This handler replaces the one of SIGTERM and sends SIGINT,
    whose handler stops the worker. The third call of granian's handler would block the whole process, so it
    must get one signal only, although the worker can get several and uvloop may report one twice. granian
    waits for all connections, so the loop also ends after STOP_SECONDS.
    """

    @cache  # Later signals change nothing.
    def stop() -> None:
        body_timeouts.shut_down()
        loop.call_later(STOP_SECONDS, sys.exit)
        # SIGINT is blocked in a worker, so this one merges with any that a terminal has sent.
        os.kill(os.getpid(), signal.SIGINT)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    loop.add_signal_handler(signal.SIGTERM, stop)
    loop.call_soon(signal.pthread_sigmask, signal.SIG_UNBLOCK, SIGTERM)
