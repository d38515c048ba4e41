"""The process that keeps the workers: `manage.py serve` becomes it, so that it is small.

It knows granian and nothing of Django, whose memory only the workers need. What decides how they serve
comes in the environment.
"""

import argparse
import gc
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from granian.constants import HTTPModes, Interfaces, Loops, RuntimeModes
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer, WorkerProcess

from petstore.observability.healthcheck import is_alive
from petstore.observability.logs import LOG_CONFIG
from petstore.observability.metrics_files import preallocate
from petstore.server import shutdown

STOP_SECONDS = 10  # What a worker has to finish its requests when the service is told to stop.
MAX_CONNECTIONS = 8_000  # Of clients, to a worker.
MAX_BUFFERED = 64 * 1024  # Bytes of a head, and of an answer that its client has not taken.
RESERVED_FILES = 256  # What a worker has open beside them, at most.


class Worker(WorkerProcess):
    """A worker for whose end one thread alone waits.

    The system tells only one of two that wait. Until that one has noted it, the other takes the worker for
    alive: granian would log that it kills a worker, which has ended by itself.
    """

    def _watch(self) -> None:
        self._watching = threading.Thread(target=self._watcher)
        self._watching.start()

    def join(self, timeout: float | None = None) -> None:
        self._watching.join(timeout)


class DrainingServer(MPServer):
    """Granian's server, which after SIGTERM is not ready for `drain_seconds`, and stops only then.

    A second SIGTERM, and Ctrl-C at any time, stop it at once.
    """

    def __init__(
        self, *args: Any, drain_seconds: int, announce: Callable[[], object], **options: Any
    ) -> None:
        """`announce` waits in a thread until the service responds."""
        super().__init__(*args, **options)
        self.drain_seconds = drain_seconds
        self._announce = announce

    def _spawn_workers(self, *args: Any, **options: Any) -> None:
        super()._spawn_workers(*args, **options)  # type: ignore[no-untyped-call]
        threading.Thread(target=self._announce, daemon=True).start()

    def _spawn_worker(self, *args: Any, **options: Any) -> Any:
        worker: Any = super()._spawn_worker(*args, **options)
        worker.__class__ = Worker  # The server has no setting for it.
        return worker

    def signal_handler_interrupt(self, *args: Any, **options: Any) -> None:
        """Begin to drain, or stop; the first argument is the signal's number."""
        if args[:1] != (signal.SIGTERM,) or shutdown.is_draining() or not self.drain_seconds:
            super().signal_handler_interrupt()  # type: ignore[no-untyped-call]
            return
        shutdown.start_draining()
        end = threading.Timer(self.drain_seconds, super().signal_handler_interrupt)
        end.daemon = True
        end.start()


def set_worker_signals() -> None:
    """Let every worker hear its parent's SIGTERM, however young it is, and leave Ctrl-C to the parent.

    A new worker has its parent's handlers until the server installs others, and what arrives before then
    would be lost: the parent would wait for it. A terminal's Ctrl-C goes to the workers as well: they would
    end before the parent knows why, and be replaced. The parent itself hears both from the first worker on:
    `manage.py serve` has blocked them, and by then the server has its handlers.
    """
    both = {signal.SIGINT, signal.SIGTERM}

    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, both),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, both),
        after_in_child=shutdown.start_worker_process,
    )


def max_connections() -> int:
    """Return how many clients may be connected to a worker at once, and allow it the files for them.

    granian takes no further connection while so many are open, whether they ask for something or not: with
    its usual 512, idle clients would keep others out. The application itself refuses what is too much.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return min(MAX_CONNECTIONS, max(most - RESERVED_FILES, RESERVED_FILES))


def announce(host: str, port: int, workers: int) -> None:
    """Say where the service is, once it responds there."""
    while not is_alive(port, host):
        time.sleep(0.05)
    name = f"[{host}]" if ":" in host else host
    sys.stdout.write(f"Serving on http://{name}:{port}/ with {workers} workers. Stop with Ctrl-C.\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="petstore.server.supervisor")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--client-seconds", type=int, required=True)
    parser.add_argument("--drain-seconds", type=int, required=True)
    parser.add_argument("--log-format", required=True)
    parser.add_argument("--metrics-port", type=int, required=True)
    parser.add_argument("--metrics-allow-from", required=True)
    parser.add_argument("--metrics-dir", required=True)
    options = parser.parse_args()
    set_worker_signals()
    # The metrics library decides when it is imported whether the workers share their numbers.
    with TemporaryDirectory(
        prefix="petstore-metrics-", dir=options.metrics_dir or None, ignore_cleanup_errors=True
    ) as shared:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = shared
        os.register_at_fork(after_in_child=preallocate)  # Before the library makes files of its own.
        # What a worker loads stays: the collector need not look before wsgi.py lets it. A tenth of a start.
        os.register_at_fork(after_in_child=gc.disable)
        if options.metrics_port:
            from petstore.observability.metrics_port import serve_metrics  # Its library takes 3 MB.

            serve_metrics(options.host, options.metrics_port, options.metrics_allow_from.split(","))
        # A thread that imports while a worker is forked leaves it a lock that is never released.
        is_alive(options.port, options.host)  # Imports late what `announce` needs.
        DrainingServer(
            "petstore.server.app:application",
            interface=Interfaces.RSGI,
            loop=Loops.uvloop,
            runtime_mode=RuntimeModes.st,
            backpressure=max_connections(),
            address=options.host,
            port=options.port,
            workers=options.workers,
            http=HTTPModes.http1,
            websockets=False,
            http1_settings=HTTP1Settings(
                header_read_timeout=options.client_seconds * 1000, max_buffer_size=MAX_BUFFERED
            ),
            respawn_failed_workers=True,
            drain_seconds=options.drain_seconds,
            announce=partial(announce, options.host, options.port, options.workers),
            workers_kill_timeout=STOP_SECONDS,
            log_level=LogLevels.warning,
            log_dictconfig=LOG_CONFIG if options.log_format == "json" else None,
        ).serve()


if __name__ == "__main__":
    main()
