"""Clients that ask, and don't take the answer: the kernel ends their connections."""

import os
import socket
from contextlib import suppress
from pathlib import Path


def cut_who_takes_nothing(seconds: int) -> None:
    """End each connection to this process whose client leaves what was sent to it untaken for so long.

    A connection has this from its listening socket. It holds as well for a client that says again and again
    that it has no room (TCP_USER_TIMEOUT, tcp(7)). The server has no such limit, nor a setting for this.
    Who takes a little again and again is not cut: it holds a connection, and MOST_BUFFERED of its answer.
    """
    for entry in Path("/proc/self/fd").iterdir():
        if entry.is_socket():
            with suppress(OSError), socket.socket(fileno=os.dup(int(entry.name))) as found:
                if found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, seconds * 1000)
