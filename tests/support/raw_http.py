"""HTTP over a plain socket, for requests and responses that no HTTP client sends or shows."""

import socket
from urllib.parse import urlsplit

from tests.support.live import Service


def connect(service: Service, *sent: bytes, timeout: float) -> socket.socket:
    """Open a connection and send these bytes."""
    port = urlsplit(service.url).port
    assert port is not None
    connection = socket.create_connection(("127.0.0.1", port), timeout)
    connection.sendall(b"".join(sent))
    return connection


def read_until_closed(connection: socket.socket) -> bytes:
    """Read until the server closes the connection. A hang raises TimeoutError."""
    with connection:
        data = b""
        while part := connection.recv(65_536):
            data += part
        return data


def parse_response(data: bytes) -> tuple[int, dict[str, str], bytes]:
    """Return the response's status, its headers in lower case, and its body."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return int(first.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body
