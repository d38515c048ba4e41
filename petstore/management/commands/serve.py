"""Run the production server."""

import json
import os
import signal
import socket
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from petstore import compatibility
from petstore.management.base import DocumentedCommand, escape_nonprintable


def resolve_free_address(host: str, port: int, settings_names: str = "--host, --port or PORT") -> str:
    """Resolve a host, preferring IPv4. Raises CommandError if the address is invalid or in use.

    Workers share a port with SO_REUSEPORT, so a second service could otherwise start on the same port and
    receive some of the requests.
    """
    reason = "a port is a number from 1 to 65535"
    if 1 <= port <= 65_535:
        try:
            family, kind, _, _, address = min(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # Like the server.
                probe.bind(address[:2])
            return str(address[0])
        except (socket.gaierror, UnicodeError):
            reason = "this machine has no such address"
        except OSError as error:
            reason = error.strerror or str(error)
    message = f"Can't listen on {escape_nonprintable(host) or 'an empty host'} port {port}: {reason}."
    raise CommandError(f"{message} Choose another with {settings_names}.")


class Command(DocumentedCommand):
    requires_system_checks: list[str] = []  # `make check` runs them.
    help = "Run the production server until SIGTERM or Ctrl-C."
    examples = """
        manage.py serve
        PORT=9000 manage.py serve --workers 4
        manage.py serve --host 0.0.0.0 --port 80
        """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="Address to listen on.")
        parser.add_argument("--port", type=int, default=settings.PORT, help="Port to listen on.")
        parser.add_argument("--workers", type=int, default=2, help="Worker processes.")
        text = "Threads per worker: for all requests in threads mode, else for pages and blocking calls."
        parser.add_argument("--threads", type=int, default=settings.THREADS, help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["workers"] < 1 or options["threads"] < 1:
            raise CommandError("--workers and --threads must be 1 or more.")
        options["host"] = resolve_free_address(options["host"], options["port"])
        options["metrics_host"] = settings.METRICS_HOST or options["host"]
        if options["port"] == settings.METRICS_PORT:
            raise CommandError("METRICS_PORT is the same port. Choose another with --port or PORT.")
        if settings.METRICS_PORT:
            options["metrics_host"] = resolve_free_address(
                options["metrics_host"], settings.METRICS_PORT, "METRICS_HOST or METRICS_PORT"
            )
        if settings.METRICS_DIR and not os.access(settings.METRICS_DIR, os.W_OK | os.X_OK):
            raise CommandError(f"METRICS_DIR must be a writable folder, not {settings.METRICS_DIR!r}.")
        if os.environ.get("REDIS_URL"):
            self.stderr.write("REDIS_URL is ignored: the database counts requests. Remove it.")
        for warning in compatibility.list_warnings(os.environ):
            self.stderr.write(warning)
        # Keep signals pending until the supervisor can handle them.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        exec_supervisor(options)


def exec_supervisor(options: dict[str, Any]) -> None:
    """Replace this process with the supervisor, which inherits these variables."""
    values = {name: options[name] for name in ("host", "port", "workers", "metrics_host")}
    os.environ |= {"THREADS": str(options["threads"]), "PYTHONSAFEPATH": ""}
    os.environ |= {"SERVE_HOST": options["host"], "SERVE_PORT": str(options["port"])}  # For status samples.
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")  # A single heap retains less memory.
    os.chdir(settings.BASE_DIR)
    os.execv(sys.executable, [sys.executable, "-m", "petstore.server.supervisor", json.dumps(values)])  # noqa: S606  Not a shell.
