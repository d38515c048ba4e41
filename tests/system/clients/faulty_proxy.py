"""A proxy in front of a service that rejects and breaks requests."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from tests.support.live import Service

Action = Callable[[BaseHTTPRequestHandler, httpx.Response], None]


@dataclass
class Exchange:
    """A request and the service's response; times are those of time.monotonic()."""

    method: str
    arrived: float
    answered: float = 0.0
    status: int = 0
    retry_after: int = 0


class Proxy:
    """A proxy in front of a service, which applies a list of actions to the first requests."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.actions: list[Action] = []
        self.exchanges: list[Exchange] = []
        self.url = ""

    @property
    def arrivals(self) -> list[float]:
        return [exchange.arrived for exchange in self.exchanges]

    @property
    def statuses(self) -> list[int]:
        return [exchange.status for exchange in self.exchanges]


def reject(
    handler: BaseHTTPRequestHandler, _: httpx.Response, seconds: int | str = 2, code: str = "a_limit"
) -> None:
    """Respond like the service when a limit is exhausted, or like a proxy that names a date."""
    body = json.dumps({"code": code, "message": f"Try again in {seconds} seconds.", "status": 429}).encode()
    handler.send_response(429)
    handler.send_header("Retry-After", str(seconds))
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def drop_connection(handler: BaseHTTPRequestHandler, _: httpx.Response) -> None:
    """Close the connection after the service has processed the request."""
    handler.close_connection = True


def forward(handler: BaseHTTPRequestHandler, response: httpx.Response) -> None:
    """Forward the service's response."""
    handler.send_response(response.status_code)
    for name, value in response.headers.items():
        if name not in {"transfer-encoding", "connection", "date", "server"}:
            handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(response.content)


@contextmanager
def proxy(service: Service, otherwise: Action = forward) -> Iterator[Proxy]:
    """Yield a listening proxy, which applies `otherwise` after the list of actions."""
    made = Proxy(service)

    class Handler(BaseHTTPRequestHandler):
        def handle_request(self) -> None:
            exchange = Exchange(self.command, time.monotonic())
            made.exchanges.append(exchange)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            act = made.actions.pop(0) if made.actions else otherwise
            sent = {name: value for name, value in self.headers.items() if name != "Host"}
            response = httpx.request(self.command, service.url + self.path, headers=sent, content=body)
            exchange.status, exchange.answered = response.status_code, time.monotonic()
            exchange.retry_after = int(response.headers.get("Retry-After", 0))
            act(self, response)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_request

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
