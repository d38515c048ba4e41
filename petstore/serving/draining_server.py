"""The server of `manage.py serve`."""

import signal
import threading
from typing import Any

from granian.server.mp import MPServer

from petstore.observability import draining


class DrainingServer(MPServer):
    """Granian's server, which after SIGTERM is not ready for `drain_seconds`, and stops only then.

    A second SIGTERM, and Ctrl-C at any time, stop it at once.
    """

    def __init__(self, *args: Any, drain_seconds: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self.drain_seconds = drain_seconds

    def signal_handler_interrupt(self, *args: Any, **options: Any) -> None:
        """Begin to drain, or stop; the first argument is the signal's number."""
        if args[:1] != (signal.SIGTERM,) or draining.is_draining() or not self.drain_seconds:
            super().signal_handler_interrupt()  # type: ignore[no-untyped-call]
            return
        draining.begin()
        end = threading.Timer(self.drain_seconds, super().signal_handler_interrupt)
        end.daemon = True
        end.start()
