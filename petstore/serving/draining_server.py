"""The server of `manage.py serve`."""

import signal
import threading
from collections.abc import Callable
from typing import Any

from granian.server.mp import MPServer, WorkerProcess

from petstore.observability import draining


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
        if args[:1] != (signal.SIGTERM,) or draining.is_draining() or not self.drain_seconds:
            super().signal_handler_interrupt()  # type: ignore[no-untyped-call]
            return
        draining.begin()
        end = threading.Timer(self.drain_seconds, super().signal_handler_interrupt)
        end.daemon = True
        end.start()
