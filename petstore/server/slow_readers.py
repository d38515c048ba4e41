"""Timeouts for clients that don't read their responses: CLIENT_SECONDS in the settings."""

import os
import socket
from contextlib import suppress
from pathlib import Path


def set_send_timeout(seconds: int) -> None:
    """Let the kernel close connections whose client reads nothing for that many seconds.

    Connections inherit TCP_USER_TIMEOUT from their listening socket. It also applies while the client's
    receive window is zero (tcp(7)). granian has no such setting. A client that reads slowly keeps its
    connection and up to MAX_BUFFERED bytes.
    """
    for entry in Path("/proc/self/fd").iterdir():
        if entry.is_socket():
            with suppress(OSError), socket.socket(fileno=os.dup(int(entry.name))) as sock:
                if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, seconds * 1000)
