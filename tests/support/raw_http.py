"""HTTP over a plain socket, for requests and responses that no HTTP client sends or shows."""

import socket
from urllib.parse import urlsplit

from tests.support.live import Service


def connect(service: Service, *sent: bytes, timeout: float) -> socket.socket:
    """A connection on which these bytes were sent, and nothing more follows."""
    port = urlsplit(service.url).port
    assert port is not None
    connection = socket.create_connection(("127.0.0.1", port), timeout)
    connection.sendall(b"".join(sent))
    return connection


def rest(connection: socket.socket) -> bytes:
    """Read until the server closes. A hang is a timeout error."""
    with connection:
        answer = b""
        while part := connection.recv(65_536):
            answer += part
        return answer


def parsed(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    """The response's status, its headers in lower case, and its body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return int(first.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body
