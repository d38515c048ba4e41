"""A light HTTP/1.1 client for loads: one thread, one epoll, no pipelining, no retries.

Open loop: requests are due at a fixed rate, independent of the service, and times count from the due time
(a slow service can't slow its own measurement down). Closed loop: a fixed number of requests is always in
progress. A request uses the connection that has been idle longest, or a new one.
"""

from __future__ import annotations

import resource
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from tests.load.record import Failure, Record
from tests.load.shop import Request, Shop

READ = select.EPOLLIN | select.EPOLLRDHUP
CHUNK = 256 * 1024
NONE = 255  # The operation of a request that was never created.
TIMEOUT = 10  # Seconds until a client gives up.


class Response(NamedTuple):
    """A complete response."""

    status: int
    headers: bytes  # In lower case.
    body: bytes


class Phase(NamedTuple):
    """A period of constant load."""

    seconds: float
    rate: float | None  # Requests a second; None: the closed loop.
    connections: int  # The maximum.


class NotHttpError(Exception):
    """The bytes are no response that this client supports."""


def parse_response(received: bytes) -> Response | None:
    """The response, or None while it is incomplete. Raises NotHttpError.

    Bodies need a Content-Length, which every response of the service has.
    """
    head, separator, body = received.partition(b"\r\n\r\n")
    if not separator:
        return None
    try:
        headers = head.lower() + b"\r\n"
        status = int(headers[9:12])
        if status == 204:
            return Response(status, headers, b"")
        length = int(headers.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])
    except ValueError:
        raise NotHttpError(head[:200]) from None
    return Response(status, headers, body) if len(body) >= length else None


class Connection:
    """A connection, and the request in progress on it."""

    __slots__ = ("connected", "due", "number", "received", "request", "socket")

    def __init__(self, made: socket.socket) -> None:
        self.socket = made
        self.connected = False
        self.request: Request | None = None
        self.due = 0.0
        self.number = 0  # Counts its requests, to recognize obsolete deadlines.
        self.received = b""


class Client:
    """Sends a shop's requests to a port of this machine, and records the outcomes."""

    def __init__(self, port: int, shop: Shop) -> None:
        self.address = ("127.0.0.1", port)
        self.shop = shop
        self.record = Record()
        self.started_at = 0.0
        self.seconds = self.cpu_seconds = 0.0  # Duration of the load, and the client's CPU time.
        self.stopping = threading.Event()
        self.connections: dict[int, Connection] = {}  # By file descriptor.
        self.idle: deque[Connection] = deque()
        self.deadlines: deque[tuple[float, Connection, int]] = deque()
        self.busy = 0

    def run(self, phases: Iterable[Phase]) -> Record:
        """Send until the phases are over or `stop()` is called; wait for the last responses."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.epoll = select.epoll()
        self.started_at = time.perf_counter()
        cpu_seconds = time.thread_time()
        try:
            for phase in phases:
                self.run_phase(phase)
            while self.busy:
                self.poll(0.05)
        finally:
            for connection in list(self.connections.values()):
                self.close(connection)
            self.epoll.close()
            self.seconds, self.cpu_seconds = self.now(), time.thread_time() - cpu_seconds
        return self.record

    def stop(self) -> None:
        """Stop sending; callable from another thread."""
        self.stopping.set()

    def now(self) -> float:
        """Seconds since the load started: the record's clock."""
        return time.perf_counter() - self.started_at

    def run_phase(self, phase: Phase) -> None:
        """Send the due requests, and read responses, until the phase is over."""
        start = time.perf_counter()
        if phase.rate is None:
            self.keep_busy(start + phase.seconds, phase.connections)
            return
        offered, elapsed = 0, 0.0
        while elapsed < phase.seconds and not self.stopping.is_set():
            elapsed = min(time.perf_counter() - start, phase.seconds)
            while offered < elapsed * phase.rate:
                self.send(start + offered / phase.rate, phase.connections)
                offered += 1
            self.poll(start + offered / phase.rate - time.perf_counter())

    def keep_busy(self, end: float, connections: int) -> None:
        """Keep a request in progress on every connection until then."""
        while (now := time.perf_counter()) < end and not self.stopping.is_set():
            for _ in range(connections - self.busy):
                self.send(now, connections)
            self.poll(0.05)

    def send(self, due: float, max_connections: int) -> None:
        """Send a request on the connection that has been idle longest, or on a new one."""
        if self.busy >= max_connections:
            self.record.add(due - self.started_at, 0, NONE, Failure.UNSENT)
            return
        connection = self.idle_connection() or self.connect()
        connection.request, connection.due = self.shop.request(), due
        connection.number += 1
        self.busy += 1
        self.deadlines.append((time.perf_counter() + TIMEOUT, connection, connection.number))
        if connection.connected:
            self.write(connection)

    def idle_connection(self) -> Connection | None:
        while self.idle:
            connection = self.idle.popleft()
            if connection.socket.fileno() >= 0:  # The service may have closed it.
                return connection
        return None

    def connect(self) -> Connection:
        """Start to connect; epoll reports the result."""
        made = socket.socket()
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.connect_ex(self.address)
        connection = self.connections[made.fileno()] = Connection(made)
        self.epoll.register(made.fileno(), READ | select.EPOLLOUT)
        return connection

    def write(self, connection: Connection) -> None:
        """Send the request, which is so short that the socket never blocks."""
        assert connection.request is not None
        try:
            connection.socket.send(connection.request.text)
        except OSError:
            self.fail(connection, Failure.LOST)

    def poll(self, seconds: float) -> None:
        """Wait for events of the connections, for at most this many seconds."""
        if seconds > 0:
            select.select([self.epoll], [], [], seconds)  # Resolution of microseconds; epoll's own is 1 ms.
        for number, event in self.epoll.poll(0):
            connection = self.connections.get(number)
            if connection is None:
                continue
            if connection.connected:
                self.read(connection)
            elif event & (select.EPOLLERR | select.EPOLLHUP):
                self.fail(connection, Failure.REFUSED)
            else:
                connection.connected = True
                self.epoll.modify(number, READ)
                self.write(connection)
        self.fail_timed_out()

    def read(self, connection: Connection) -> None:
        try:
            data = connection.socket.recv(CHUNK)
        except OSError:
            data = b""
        if not data or connection.request is None:  # An idle connection closes, or sends unexpected data.
            self.fail(connection, Failure.LOST)
            return
        connection.received += data
        try:
            response = parse_response(connection.received)
        except NotHttpError:
            self.fail(connection, Failure.GARBLED)
            return
        if response is not None:
            self.finish(connection, response)

    def finish(self, connection: Connection, response: Response) -> None:
        """Record a response; keep the connection if the service does."""
        request = connection.request
        assert request is not None
        shed = response.status == 503 and b"\r\nretry-after:" in response.headers
        self.busy -= 1
        self.shop.acknowledge(request, response.status, response.body)
        self.add(request, connection.due, Failure.SHED if shed else response.status)
        connection.request, connection.received = None, b""
        if b"\r\nconnection: close" in response.headers:
            self.close(connection)
        else:
            self.idle.append(connection)

    def fail(self, connection: Connection, why: Failure) -> None:
        """Close, and record the request in progress, if any."""
        self.close(connection)
        if connection.request is not None:
            self.busy -= 1
            self.add(connection.request, connection.due, why)
            connection.request = None

    def fail_timed_out(self) -> None:
        now = time.perf_counter()
        while self.deadlines and self.deadlines[0][0] <= now:
            _, connection, number = self.deadlines.popleft()
            if connection.request is not None and connection.number == number:
                self.fail(connection, Failure.SILENT if connection.connected else Failure.UNREACHED)

    def close(self, connection: Connection) -> None:
        """Close and remove; closing also removes it from the epoll."""
        if connection.socket.fileno() in self.connections:
            del self.connections[connection.socket.fileno()]
            connection.socket.close()

    def add(self, request: Request, due: float, outcome: int) -> None:
        self.record.add(due - self.started_at, time.perf_counter() - due, request.operation, outcome)
