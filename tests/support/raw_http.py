"""Answers read from a socket: what no client of HTTP would send, or show."""

import socket


def rest(connection: socket.socket) -> bytes:
    """Return what comes until the other side closes. It must: a hang is a time-out error."""
    with connection:
        answer = b""
        while part := connection.recv(65_536):
            answer += part
        return answer


def parsed(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    """Return an answer's status, its headers in small letters, and its body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return int(first.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body
