"""Serves the metrics of all workers on a separate port (METRICS_PORT), from a thread of the supervisor."""

import os
import socket
import threading
from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from petstore.observability.metrics_files import Supervisor


class SupervisorCollector(Collector):
    """The metrics of the supervisor, which exist even if no worker does."""

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "petstore_workers_configured", "Workers that the service should have.", Supervisor.workers
        )
        yield GaugeMetricFamily(
            "petstore_start_time_seconds",
            "When the service started, in seconds since the epoch.",
            Supervisor.started_at,
        )
        yield CounterMetricFamily(
            "petstore_worker_exits",
            "Workers that exited unexpectedly and were replaced.",
            Supervisor.worker_exits[0],
        )


class MultiprocessRegistry(CollectorRegistry):
    """The metrics of the supervisor and of all workers."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.register(SupervisorCollector())
        MultiProcessCollector(self, folder)  # type: ignore[no-untyped-call]


class IPv6MetricsServer(ThreadingWSGIServer):
    address_family = socket.AF_INET6


class QuietHandler(WSGIRequestHandler):
    timeout = 5

    def log_message(self, *args: Any) -> None: ...


def serve_metrics(host: str, port: int, allow_from: Iterable[str]) -> ThreadingWSGIServer:
    """Serve /metrics to these networks from a thread. Raises OSError if the address can't be used.

    Access depends on the address of the connection; X-Forwarded-For is ignored.
    """
    networks = [ip_network(network) for network in allow_from]
    metrics_app = make_wsgi_app(MultiprocessRegistry(os.environ["PROMETHEUS_MULTIPROC_DIR"]))

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        address = ip_address(environ["REMOTE_ADDR"].removeprefix("::ffff:"))
        if environ["PATH_INFO"] == "/metrics" and any(address in network for network in networks):
            response: Iterable[bytes] = metrics_app(environ, start_response)
            return response
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"There is no such page.\n"]

    server_class = IPv6MetricsServer if ":" in host else ThreadingWSGIServer
    server = make_server(host, port, application, server_class, QuietHandler)
    os.register_at_fork(after_in_child=server.socket.close)  # Workers must not keep the port open.
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
