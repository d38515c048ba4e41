"""Run the production server."""

import os
import shutil
import signal
import socket
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server import Server

from petstore.management.base import DocumentedCommand

STOP_SECONDS = 10  # What a worker has to finish its requests when the service is told to stop.


def check_free(host: str, port: int) -> None:
    """Refuse an address that can't be listened on.

    The workers share one port (SO_REUSEPORT), so without this a second service would start, and each
    would get some of the requests.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # As the server does.
            probe.bind((address[0], port, *address[2:]))
    except (OSError, OverflowError) as error:
        text = f"Can't listen on {host} port {port}: {error}. Choose another with --port or PORT."
        raise CommandError(text) from None


def make_workers_end_when_told() -> None:
    """Let every worker hear its parent's SIGTERM, however young it is, and leave Ctrl-C to the parent.

    A new worker has its parent's handlers until the server installs others, and what arrives before then
    would be lost: the parent would wait for it. A terminal's Ctrl-C goes to the workers as well: they would
    end before the parent knows why, and be replaced.
    """
    both = {signal.SIGINT, signal.SIGTERM}

    def in_worker() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, both),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, both),
        after_in_child=in_worker,
    )


class Command(DocumentedCommand):
    """`manage.py serve`."""

    help = "Serve with the production server until it is told to stop (SIGTERM or Ctrl-C)."
    examples = """
        manage.py serve
        PORT=9000 manage.py serve --workers 4
        manage.py serve --host 0.0.0.0 --port 80
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the options."""
        parser.add_argument("--host", default="127.0.0.1", help="Address to listen on.")
        parser.add_argument("--port", type=int, default=settings.PORT, help="Port to listen on.")
        parser.add_argument("--workers", type=int, default=2, help="Processes that answer.")
        parser.add_argument(
            "--threads", type=int, default=4, help="Requests that a process handles at once."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve."""
        check_free(options["host"], options["port"])
        self.stdout.write(
            f"Serving on http://{options['host']}:{options['port']}/ "
            f"with {options['workers']} workers. Stop with Ctrl-C."
        )
        self.stdout.flush()
        make_workers_end_when_told()
        try:
            self.serve(options)
        finally:
            shutil.rmtree(os.environ.get("PROMETHEUS_MULTIPROC_DIR", ""), ignore_errors=True)

    def serve(self, options: dict[str, Any]) -> None:
        """Start the workers, and return when they have ended."""
        Server(
            "petstore.wsgi:application",
            address=options["host"],
            port=options["port"],
            interface=Interfaces.WSGI,
            workers=options["workers"],
            blocking_threads=options["threads"],
            blocking_threads_idle_timeout=600,
            websockets=False,
            respawn_failed_workers=True,
            workers_kill_timeout=STOP_SECONDS,
            log_level=LogLevels.warning,
            working_dir=settings.BASE_DIR,
        ).serve()
