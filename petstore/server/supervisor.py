"""The supervisor of the workers, which `manage.py serve` executes.

It imports granian but not Django, to stay small. The workers take their settings from the environment.
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
from petstore.observability.metrics_files import preallocate_metrics_files
from petstore.server import shutdown

STOP_SECONDS = 10  # For a worker to finish its requests.
MAX_CONNECTIONS = 8_000  # Per worker.
MAX_BUFFERED = 64 * 1024  # Bytes of a request's head, and of an unread response.
RESERVED_FILES = 256  # Open files of a worker beside its connections, at most.


class Worker(WorkerProcess):
    """A worker process that only its watcher thread waits for.

    Of two waiting threads, only one gets the exit status. granian's `join` would take the worker for alive
    and log that it kills it.
    """

    def _watch(self) -> None:
        self._watching = threading.Thread(target=self._watcher)
        self._watching.start()

    def join(self, timeout: float | None = None) -> None:
        self._watching.join(timeout)


class DrainingServer(MPServer):
    """Granian's server, which drains for `drain_seconds` after SIGTERM before it stops.

    A second SIGTERM, or Ctrl-C, stops it at once.
    """

    def __init__(
        self, *args: Any, drain_seconds: int, announce: Callable[[], object], **options: Any
    ) -> None:
        """`announce` runs in a thread and waits until the service responds."""
        super().__init__(*args, **options)
        self.drain_seconds = drain_seconds
        self._announce = announce

    def _spawn_workers(self, *args: Any, **options: Any) -> None:
        super()._spawn_workers(*args, **options)  # type: ignore[no-untyped-call]
        threading.Thread(target=self._announce, daemon=True).start()

    def _spawn_worker(self, *args: Any, **options: Any) -> Any:
        worker: Any = super()._spawn_worker(*args, **options)
        worker.__class__ = Worker  # granian has no setting for it.
        return worker

    def signal_handler_interrupt(self, *args: Any, **options: Any) -> None:
        if args[:1] != (signal.SIGTERM,) or shutdown.is_draining() or not self.drain_seconds:
            super().signal_handler_interrupt()  # type: ignore[no-untyped-call]
            return
        shutdown.start_draining()
        end = threading.Timer(self.drain_seconds, super().signal_handler_interrupt)
        end.daemon = True
        end.start()


def set_worker_signals() -> None:
    """Let new workers receive SIGTERM from the supervisor and ignore Ctrl-C.

    A new worker has the supervisor's handlers until the server installs its own; a signal in between would
    be lost, and the supervisor would wait for the worker. A terminal sends Ctrl-C to the workers as well:
    they would end before the supervisor and be restarted. `manage.py serve` has blocked both signals, and
    the supervisor unblocks them after its first fork, when its handlers exist.
    """
    both = {signal.SIGINT, signal.SIGTERM}

    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, both),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, both),
        after_in_child=shutdown.start_worker_process,
    )


def max_connections() -> int:
    """Return the number of connections per worker, and raise the limit of open files to match.

    granian accepts no connection beyond it, idle or not. Its default of 512 would let idle clients lock
    others out; the application limits concurrent requests itself.
    """
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    if hard_limit == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return min(MAX_CONNECTIONS, max(hard_limit - RESERVED_FILES, RESERVED_FILES))


def announce(host: str, port: int, workers: int) -> None:
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
    # prometheus_client reads PROMETHEUS_MULTIPROC_DIR on import.
    with TemporaryDirectory(
        prefix="petstore-metrics-", dir=options.metrics_dir or None, ignore_cleanup_errors=True
    ) as shared:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = shared
        # Before prometheus_client creates the files.
        os.register_at_fork(after_in_child=preallocate_metrics_files)
        # Collecting garbage while loading is wasted work; wsgi.py enables it.
        os.register_at_fork(after_in_child=gc.disable)
        if options.metrics_port:
            from petstore.observability.metrics_port import serve_metrics  # Saves memory.

            serve_metrics(options.host, options.metrics_port, options.metrics_allow_from.split(","))
        # If a thread imports during a fork, the worker inherits a locked import lock. This call performs
        # the late imports of `announce`.
        is_alive(options.port, options.host)
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
