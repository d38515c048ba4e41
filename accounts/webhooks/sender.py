"""Sends webhooks to one URL: to permitted addresses only, within a deadline, and reading little (D55).

It depends on neither settings nor database: a URL, a body, headers and a policy lead to an outcome.
"""

import http.client
import io
import re
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, partial
from time import monotonic
from typing import Any, TypeVar

from django.db.models import TextChoices

from accounts.webhooks.targets import (
    ForbiddenError,
    Policy,
    ResolvedAddress,
    UnresolvableError,
    parse_url,
)
from petstore.addresses import DEFAULT_PORTS

TIMEOUT_SECONDS = 10.0  # For the whole exchange, from the name to the body.
MAX_RESPONSE_BYTES = 64 * 1024  # With what TLS adds, and as much for its handshake.
# Parsing takes CPU time, during which a worker serves no request.
MAX_PARSED_BYTES = 16 * 1024  # Of the headers, also those of interim responses, and of the body.
MAX_INTERIM_RESPONSES = 10
MIN_PART_COST = 64  # Bytes. Smaller parts of a response count as this size.
MAX_BODY_BYTES = 8 * 1024
MAX_TEXT_BYTES = 2 * 1024
MAX_ADDRESSES = 8  # Of a name, that are tried.
RECORD_BYTES = 16 * 1024  # Of TLS.

T = TypeVar("T")


class Failure(TextChoices):
    """Why an attempt failed. The values are stored, and pages show the labels."""

    NAME = "name", "The host name can't be resolved"
    ADDRESS = "address", "Webhooks may not be sent to this address"
    CONNECTION = "connection", "The connection failed"
    TLS = "tls", "TLS failed: the certificate is not trusted, has expired or is for another name"
    TIMEOUT = "timeout", f"No complete response within {TIMEOUT_SECONDS:.0f} seconds"
    RESPONSE = "response", "The response is not HTTP"
    STATUS = "status", "The status is not 2xx"  # Pages show the status.
    SECRET = "secret", "The secret is no longer available: rotate it"
    EVENT = "event", "The event is no longer stored"


@dataclass(frozen=True)
class Outcome:
    error: Failure | None = None
    status: int | None = None
    text: str = ""
    retry_after: int | None = None  # Seconds.
    milliseconds: int = 0


class Stream:
    """A connection, perhaps with TLS. Every operation ends at the deadline, and little is read.

    OpenSSL gets from memory what was read here. From a socket, it would read messages of TLS, such as
    session tickets, for as long as they arrive, regardless of its timeout.
    """

    def __init__(self, sock: socket.socket, get_timeout: Callable[[], float]) -> None:
        self._sock, self._get_timeout = sock, get_timeout
        self._remaining = MAX_RESPONSE_BYTES
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None

    def start_tls(self, context: ssl.SSLContext, name: str) -> None:
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self._remaining = MAX_RESPONSE_BYTES
        self._run(self._tls.do_handshake)

    def sendall(self, data: bytes) -> None:
        if self._tls:
            self._run(partial(self._tls.write, data))
        else:
            self._send(data)

    def receive(self, size: int) -> bytes:
        """Return some bytes, or none at the end."""
        if self._tls is None:
            return self._receive(size)
        try:
            return self._run(partial(self._tls.read, size))
        except ssl.SSLEOFError:
            return b""

    def makefile(self, _: str) -> io.BufferedReader:
        """Return the next response. Raises HTTPException after MAX_PARSED_BYTES."""
        self._remaining = MAX_RESPONSE_BYTES
        return io.BufferedReader(LimitedReader(self, self._sock.makefile("rb", buffering=0)))

    def close(self) -> None:
        self._sock.close()

    def _run(self, operate: Callable[[], T]) -> T:
        """Repeat an operation of TLS until it has read what it needs."""
        while True:
            try:
                return operate()
            except ssl.SSLWantReadError:
                pass
            finally:
                self._send(self._outgoing.read())
            if data := self._receive(RECORD_BYTES):
                self._incoming.write(data)
            else:
                self._incoming.write_eof()

    def _send(self, data: bytes) -> None:
        if data:
            self._sock.settimeout(self._get_timeout())
            self._sock.sendall(data)

    def _receive(self, size: int) -> bytes:
        self._sock.settimeout(self._get_timeout())
        data = self._sock.recv(min(size, self._remaining))
        self._remaining = deduct(data, self._remaining)
        return data


def deduct(data: bytes, remaining: int) -> int:
    """Return how many bytes may still be read."""
    return max(0, remaining - max(len(data), MIN_PART_COST))


class LimitedReader(io.RawIOBase):
    def __init__(self, stream: Stream, raw: Any) -> None:
        self._stream, self._raw = stream, raw  # The latter keeps the socket open.
        self._remaining = MAX_PARSED_BYTES
        self.has_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._remaining:
            raise http.client.HTTPException
        data = self._stream.receive(min(len(buffer), self._remaining))
        self._remaining = deduct(data, self._remaining)
        buffer[: len(data)] = data
        self.has_ended = not data
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()


class LimitedResponse(http.client.HTTPResponse):
    def _read_status(self) -> tuple[str, int, str]:
        """Skip interim responses (RFC 9110 section 15.2), of which http.client skips only 100."""
        for _ in range(MAX_INTERIM_RESPONSES + 1):
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if status not in range(102, 200):
                return version, status, reason
            http.client.parse_headers(self.fp)
        raise http.client.HTTPException

    def begin(self) -> None:
        """Read the headers. Raises HTTPException if they don't end, which http.client ignores."""
        reader: Any = self.fp.raw
        super().begin()
        if reader.has_ended:
            raise http.client.IncompleteRead(b"")


FAILURES: dict[type[Exception], Failure] = {  # The first that matches.
    UnresolvableError: Failure.NAME,
    ForbiddenError: Failure.ADDRESS,
    TimeoutError: Failure.TIMEOUT,
    ssl.SSLError: Failure.TLS,
    ConnectionError: Failure.CONNECTION,  # Some of them are exceptions of `http.client`, too.
    http.client.HTTPException: Failure.RESPONSE,
    OSError: Failure.CONNECTION,
}


@cache
def get_tls_context() -> ssl.SSLContext:
    """Return the context that trusts the system's certificate authorities.

    Keys are exchanged on elliptic curves. With finite fields, a receiver could choose one of 10,000 bits,
    which takes 600 ms of CPU time instead of 1.
    """
    context = ssl.create_default_context()
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES:!SHA1")  # Up to TLS 1.2.
    context.set_ecdh_curve("prime256v1")  # The only group. TLS 1.3 requires it of servers (RFC 8446).
    return context


class Sender(http.client.HTTPConnection):
    """Sends webhooks to a URL, one at a time. It keeps a connection only if the next one follows.

    Each time it connects, it resolves and judges the name, and connects to nothing else.
    """

    sock: Any  # A Stream, or None.
    response_class = LimitedResponse

    def __init__(self, url: str, policy: Policy, tls: ssl.SSLContext | None = None) -> None:
        self._target, self._policy = parse_url(url), policy
        super().__init__(self._target.host, self._target.port)
        self.default_port = DEFAULT_PORTS[self._target.scheme]
        self._tls = tls or get_tls_context() if self._target.scheme == "https" else None
        self._ends_at = 0.0  # The deadline of the exchange.

    def post(
        self,
        body: bytes,
        headers: Mapping[str, str],
        *,
        keep: bool = False,
        timeout: float = TIMEOUT_SECONDS,
    ) -> Outcome:
        """POST the body. Failures are outcomes, too; nothing is raised for what the receiver does."""
        started_at = monotonic()
        self._ends_at = started_at + timeout
        try:
            outcome = self._exchange(body, dict(headers) if keep else {**headers, "Connection": "close"})
        except (OSError, http.client.HTTPException) as error:
            outcome = Outcome(next(FAILURES[kind] for kind in FAILURES if isinstance(error, kind)))
            keep = False
        if not keep:
            self.close()
        return replace(outcome, milliseconds=round((monotonic() - started_at) * 1000))

    def _exchange(self, body: bytes, headers: dict[str, str]) -> Outcome:
        for was_kept in (self.sock is not None, False):
            try:
                self.request("POST", self._target.path, body, headers)
                response = self.getresponse()
                break
            except (ConnectionError, ssl.SSLError):
                if not was_kept:
                    raise
                self.close()  # The receiver may have done so before the request arrived.
        with response:
            outcome = Outcome(
                None if 200 <= response.status < 300 else Failure.STATUS,
                response.status,
                read_text(response),
                parse_retry_after(response.headers.get("Retry-After", "")),
            )
            if not response.isclosed() and response.length != 0:  # More than is read here.
                self.close()
        return outcome

    def _get_timeout(self) -> float:
        """Return the seconds that remain for the exchange. Raises TimeoutError if there are none."""
        remaining = self._ends_at - monotonic()
        if remaining <= 0:
            raise TimeoutError
        return remaining

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        self.sock.sendall(data)

    def connect(self) -> None:
        addresses = self._policy.resolve(self._target, self._get_timeout())
        if self._policy.proxy:
            host, _, port = self._policy.proxy.rpartition(":")
            addresses = self._policy.look_up(host.strip("[]"), int(port), self._get_timeout())
        self.sock = Stream(self._connect_to(addresses[:MAX_ADDRESSES]), self._get_timeout)
        if self._policy.proxy:
            self._open_tunnel()
        if self._tls:
            self.sock.start_tls(self._tls, self.host.rstrip("."))

    def _connect_to(self, addresses: Sequence[ResolvedAddress]) -> socket.socket:
        error: OSError = UnresolvableError()
        for index, address in enumerate(addresses):
            sock = None
            try:
                sock = socket.socket(address.family, socket.SOCK_STREAM)
                # Leaves time for the other addresses, of which one may not respond.
                sock.settimeout(self._get_timeout() / (len(addresses) - index))
                sock.connect(address.sockaddr)
                if ResolvedAddress(address.family, sock.getpeername()).address != address.address:
                    raise ForbiddenError
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as failed:
                if sock is not None:  # Otherwise the kernel lacks IPv6, for example.
                    sock.close()
                error = failed
            else:
                return sock
        raise error

    def _open_tunnel(self) -> None:
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.send(f"CONNECT {host}:{self.port} HTTP/1.1\r\nHost: {host}:{self.port}\r\n\r\n".encode())
        with self.response_class(self.sock, method="CONNECT") as response:
            response.begin()
        if response.status != 200:
            raise ConnectionRefusedError


def read_text(response: http.client.HTTPResponse) -> str:
    """Read the beginning of the body, as far as it arrives in time. It is not decompressed."""
    body = b""
    with suppress(OSError, http.client.HTTPException):
        while len(body) < MAX_BODY_BYTES:
            part = response.read1(MAX_BODY_BYTES - len(body))
            if not part:
                break
            body += part
    # A database can't store NUL. What replaces it and invalid bytes is longer.
    text = body[:MAX_TEXT_BYTES].decode(errors="replace").replace("\0", "\ufffd")
    return text.encode()[:MAX_TEXT_BYTES].decode(errors="ignore")


def parse_retry_after(value: str) -> int | None:
    """Parse a number of seconds or a date (RFC 9110 section 10.2.3)."""
    if re.fullmatch(r"[0-9]{1,9}", value):
        return int(value)
    try:
        seconds = (parsedate_to_datetime(value[:64]) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):  # TypeError: a date without a time zone.
        return None
    return max(0, round(seconds))
