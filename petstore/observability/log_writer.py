"""Where log lines go: to standard error at once, or, in a worker, to standard output behind the requests.

A worker's lines wait in memory for a thread that writes them, at least every 0.2 s and at the end. When
nobody reads the other end of the pipe, only that thread waits: what comes then is dropped, and counted.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Iterator
from multiprocessing.util import Finalize
from select import PIPE_BUF

from prometheus_client import Counter

FLUSH_SECONDS = 0.2  # Seconds.
MAX_QUEUED = 20_000  # Lines; 5 MB of those that tell of requests.
STOP_SECONDS = 1.0  # What the last lines may take at the end of a process.

DROPPED = Counter(
    "petstore_log_lines_dropped_total", "Log lines that were lost, because nobody took them in time."
)


class LogWriter:
    """Takes whole lines, each with its line feed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting: deque[bytes] = deque()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def write(self, line: bytes) -> None:
        """Write a line, at once or, after `start`, soon. Never raises, and after `start` never waits."""
        if self._thread is None:
            self._send(line, 1)
        elif len(self._waiting) < MAX_QUEUED:
            self._waiting.append(line)
        else:
            DROPPED.inc()

    def start(self, descriptor: int) -> None:
        """Write to this file from now on, in a thread of its own, and the last lines at the end."""
        self._descriptor = descriptor
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()
        Finalize(None, self.stop, exitpriority=0)  # A worker ends without atexit; others log in theirs.

    def stop(self) -> None:
        """Write what waits, unless that takes too long; what comes later is written at once."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
            if not self._thread.is_alive():
                self._thread = None
                self._write_waiting()

    def _run(self) -> None:
        while not self._stopping.wait(FLUSH_SECONDS):
            self._write_waiting()
        self._write_waiting()

    def _write_waiting(self) -> None:
        for lines in self._pieces():
            self._send(b"".join(lines), len(lines))

    def _pieces(self) -> Iterator[list[bytes]]:
        """Yield the lines in pieces that a pipe takes as a whole, so that workers don't mix theirs.

        (POSIX, write: up to PIPE_BUF bytes.) A longer line, such as a traceback, goes alone.
        """
        piece: list[bytes] = []
        size = 0
        for _ in range(len(self._waiting)):
            line = self._waiting.popleft()
            if piece and size + len(line) > PIPE_BUF:
                yield piece
                piece, size = [], 0
            piece.append(line)
            size += len(line)
        if piece:
            yield piece

    def _send(self, text: bytes, lines: int) -> None:
        rest = memoryview(text)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:  # Nobody reads, or the disk is full: the service goes on without its log.
            DROPPED.inc(lines)


log_writer = LogWriter(2)


class QueuedHandler(logging.Handler):
    """Hands what loggers write to the process's output."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode(errors="replace") + b"\n"
        except Exception:  # noqa: BLE001  The default prints the record's arguments, secrets and all.
            place = f"{record.pathname}:{record.lineno}"
            line = f"A log message of {place} could not be formed.\n".encode()
        log_writer.write(line)
