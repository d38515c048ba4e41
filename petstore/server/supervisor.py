"""The supervisor of the workers, which `manage.py serve` executes with its options as JSON.

It loads the application before it forks them. They share its memory until they write to it, and start
within a fraction of a second.
"""

import gc
import json
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from django.apps import apps
from django.conf import settings
from granian.constants import HTTPModes, Interfaces, Loops, RuntimeModes
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer, WorkerProcess

from petstore.observability.healthcheck import is_alive
from petstore.observability.log_writer import log_writer
from petstore.observability.metrics_files import (
    Supervisor,
    create_metrics_folder,
    preallocate_metrics_files,
)
from petstore.observability.metrics_port import serve_metrics
from petstore.server import shutdown

MAX_CONNECTIONS = 8_000  # Per worker.
MAX_BUFFERED = 64 * 1024  # Bytes of a request's head or of an unread response.
RESERVED_FILES = 256  # File descriptors of a worker for other purposes than client connections.
# granian's log lines go to the handler of settings.LOGGING.
LOG_CONFIG = {"loggers": {"_granian": {"handlers": [], "propagate": True}}}


class Worker(WorkerProcess):
    """A worker process whose exit only its watcher thread handles.

    If two threads wait for a process, only one of them gets the exit status. granian's `join` could then
    mistake the worker for alive, and log that it is killed.
    """

    def start(self) -> None:
        self._slot = Supervisor.take_slot()
        super().start()  # type: ignore[no-untyped-call]

    def _watch(self) -> None:
        self._watcher_thread = threading.Thread(target=self._watcher)
        self._watcher_thread.start()

    def _watcher(self) -> None:
        self.inner.join()
        if not self.interrupt_by_parent:
            Supervisor.count_worker_exit()
        Supervisor.release_slot(self._slot)
        super()._watcher()  # type: ignore[no-untyped-call]  # It replaces the worker.

    def join(self, timeout: float | None = None) -> None:
        self._watcher_thread.join(timeout)


class DrainingServer(MPServer):
    """A granian server that drains for `drain_seconds` after SIGTERM before it stops.

    A second SIGTERM, or Ctrl-C, ends draining.
    """

    def __init__(
        self, *args: Any, drain_seconds: int, announce: Callable[[], object], **options: Any
    ) -> None:
        """Create the server. `announce` runs in a thread once the workers have been started."""
        super().__init__(*args, **options)
        self.drain_seconds = drain_seconds
        self._announce = announce

    def _spawn_workers(self, *args: Any, **options: Any) -> None:
        super()._spawn_workers(*args, **options)  # type: ignore[no-untyped-call]
        threading.Thread(target=self._announce, daemon=True).start()

    def _spawn_worker(self, *args: Any, **options: Any) -> Any:
        worker: Any = super()._spawn_worker(*args, **options)
        worker.__class__ = Worker  # granian has no setting for the class.
        return worker

    def signal_handler_interrupt(self, *args: Any, **options: Any) -> None:
        if args[:1] != (signal.SIGTERM,) or shutdown.is_draining() or not self.drain_seconds:
            super().signal_handler_interrupt()  # type: ignore[no-untyped-call]
            return
        shutdown.start_draining()
        timer = threading.Timer(self.drain_seconds, super().signal_handler_interrupt)
        timer.daemon = True
        timer.start()


def load_application() -> Any:
    """Import the application and freeze its objects.

    A garbage collection would write to each object, and so copy its memory page in each worker.
    """
    gc.disable()  # Collecting garbage while modules load is wasted work.
    application = import_module("petstore.server.app").application
    gc.freeze()
    gc.enable()
    return application


def start_worker(application: Any) -> Any:
    """Start the background threads in a new worker. granian calls this for the application."""
    preallocate_metrics_files()  # Before prometheus_client opens them.
    shutdown.block_sigterm()  # Threads inherit the mask.
    for app in apps.get_app_configs():
        if hasattr(app, "start_worker"):
            app.start_worker()
    return application


def register_worker_signals() -> None:
    """Let new workers receive SIGTERM from the supervisor and ignore Ctrl-C.

    A new worker has the supervisor's handlers until granian installs its own. A signal in between would be
    lost, and the supervisor would wait for the worker. A terminal also sends Ctrl-C to the workers, which
    would exit before the supervisor and be restarted. `manage.py serve` has blocked both signals, and the
    supervisor unblocks them after its first fork, when its handlers exist.
    """
    signals = {signal.SIGINT, signal.SIGTERM}
    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signals),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, signals),
        after_in_child=shutdown.initialize_worker,
    )


def raise_connection_limit() -> int:
    """Raise the limit of open files, and return the number of connections that a worker may accept.

    At this limit, granian accepts no further connections, even if the open ones are idle. With its default
    of 512, idle clients could lock out others. The application itself limits concurrent requests.
    """
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    if hard_limit == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return min(MAX_CONNECTIONS, max(hard_limit - RESERVED_FILES, RESERVED_FILES))


def announce(host: str, port: int, workers: int) -> None:
    """Wait until the service responds, and print its URL."""
    while not is_alive(port, host):
        time.sleep(0.05)
    name = f"[{host}]" if ":" in host else host
    line = f"Serving on http://{name}:{port}/ with {workers} workers. Stop with Ctrl-C.\n"
    # Unbuffered, so a failed write is not repeated at exit.
    with suppress(OSError, AttributeError):  # A full disk, or no standard output.
        os.write(sys.stdout.fileno(), line.encode())


def main() -> None:
    options = SimpleNamespace(**json.loads(sys.argv[1]))
    # Workers share the supervisor's memory and at-fork hooks. From Python 3.14 on, fork is not the default.
    multiprocessing.set_start_method("fork")
    application = load_application()
    log_writer.descriptor = 1
    register_worker_signals()
    Supervisor.workers = options.workers
    with create_metrics_folder(settings.METRICS_DIR) as metrics_dir:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = metrics_dir
        if settings.METRICS_PORT:
            serve_metrics(options.metrics_host, settings.METRICS_PORT, settings.METRICS_ALLOW_FROM)
        # A worker that is forked while a thread imports a module inherits a locked import lock. This call
        # performs the late imports of `announce` before the first fork.
        is_alive(options.port, options.host)
        DrainingServer(
            "petstore.server.app:application",
            interface=Interfaces.RSGI,
            loop=Loops.uvloop,
            runtime_mode=RuntimeModes.st,
            backpressure=raise_connection_limit(),
            address=options.host,
            port=options.port,
            workers=options.workers,
            http=HTTPModes.http1,
            websockets=False,
            http1_settings=HTTP1Settings(
                header_read_timeout=settings.CLIENT_SECONDS * 1000, max_buffer_size=MAX_BUFFERED
            ),
            respawn_failed_workers=True,
            drain_seconds=settings.DRAIN_SECONDS,
            announce=partial(announce, options.host, options.port, options.workers),
            workers_kill_timeout=shutdown.STOP_SECONDS + shutdown.EXIT_SECONDS,
            log_level=LogLevels.warning,
            log_dictconfig=LOG_CONFIG,
        ).serve(target_loader=partial(start_worker, application), wrap_loader=False)


if __name__ == "__main__":
    main()
