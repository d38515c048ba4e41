"""Receivers of webhooks on this machine, well-behaved or not, and a certificate authority for them."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from accounts.webhooks.sender import get_tls_context

Handle = Callable[[Any, bytes], object]  # Gets the connection and the request.


def respond(status: int = 200, body: bytes = b"", **headers: str) -> Handle:
    """Respond to each request alike."""
    lines = [f"HTTP/1.1 {status} Some Reason", *(f"{name}: {value}" for name, value in headers.items())]
    response = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body
    return lambda connection, request: connection.sendall(response)


class Receiver:
    """A server that reads a request from each connection, and lets `handle` respond."""

    def __init__(
        self, handle: Handle, *, tls_name: str = "", reads: bool = True, host: str = "127.0.0.1"
    ) -> None:
        self.requests: list[bytes] = []
        self.server_names: list[str | None] = []
        self.connections = 0
        self.stopped = Event()
        self._handle, self._reads = handle, reads
        self._context = build_server_context(tls_name) if tls_name else None
        if self._context:
            self._context.sni_callback = lambda _, name, __: self.server_names.append(name)
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._server.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self.connections += 1
                Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: Any) -> None:
        with suppress(OSError), connection:
            if self._context:
                connection = self._context.wrap_socket(connection, server_side=True)
            with connection:
                request = read_request(connection) if self._reads else b""
                if self._reads:
                    self.requests.append(request)
                self._handle(connection, request)

    def stop(self) -> None:
        self.stopped.set()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@contextmanager
def receiving(handle: Handle, **options: Any) -> Iterator[Receiver]:
    receiver = Receiver(handle, **options)
    try:
        yield receiver
    finally:
        receiver.stop()


def read_request(connection: Any) -> bytes:
    """Read the head and the body of a request. Raises ConnectionError if its sender dies before its end."""
    request = b""
    while b"\r\n\r\n" not in request:
        request += receive(connection)
    head, _, body = request.partition(b"\r\n\r\n")
    lengths = [
        line.split(b":")[1] for line in head.lower().splitlines() if line.startswith(b"content-length")
    ]
    while len(body) < int(lengths[0] if lengths else 0):
        body += receive(connection)
    return head + b"\r\n\r\n" + body


def receive(connection: Any) -> bytes:
    if part := connection.recv(65536):
        return bytes(part)
    raise ConnectionAbortedError


# --- Certificates


@cache
def get_authority() -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    return issue_certificate("Test authority", key, None, is_authority=True), key


def issue_certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None,
    *,
    is_authority: bool = False,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    issuer_key = issuer[1] if issuer else key
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )
    if is_authority:
        usage = dict.fromkeys(
            ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
             "key_agreement", "encipher_only", "decipher_only"), False,
        )  # fmt: skip
        builder = builder.add_extension(
            x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True
        )
    else:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def build_server_context(name: str) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = issue_certificate(name, key, get_authority())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        file = Path(folder, "server.pem")
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context.load_cert_chain(file)
    return context


def build_client_context() -> ssl.SSLContext:
    """Return the service's context, which also trusts the authority of the receivers."""
    authority = get_authority()[0].public_bytes(serialization.Encoding.PEM).decode()
    context = get_tls_context.__wrapped__()
    context.load_verify_locations(cadata=authority)
    return context
