"""Clients that send requests and don't read the answers: the kernel ends their connections."""

import os
import socket
from contextlib import suppress
from pathlib import Path


def set_send_timeout(seconds: int) -> None:
    """End each connection to this process whose client reads nothing of what was sent to it for so long.

    A connection inherits this from its listening socket. It also holds for a client that keeps saying that
    it has no room (TCP_USER_TIMEOUT, tcp(7)). The server has no such limit, and no setting for this.
    One that reads a little now and then is not cut off: it holds a connection, and MOST_BUFFERED bytes.
    """
    for entry in Path("/proc/self/fd").iterdir():
        if entry.is_socket():
            with suppress(OSError), socket.socket(fileno=os.dup(int(entry.name))) as found:
                if found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, seconds * 1000)
