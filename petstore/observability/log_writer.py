"""Writes log lines: those of commands to standard error, those of the service to standard output.

A worker queues its lines, and a thread writes them every FLUSH_SECONDS and at exit. If the reader of the
pipe stalls, only the thread blocks. Lines beyond MAX_QUEUED are dropped and counted.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Iterator
from multiprocessing.util import Finalize
from select import PIPE_BUF

from prometheus_client import Counter

FLUSH_SECONDS = 0.2
MAX_QUEUED = 20_000  # Lines.
STOP_SECONDS = 1.0  # How long an exiting process may take to write its last lines.

DROPPED = Counter(
    "petstore_log_lines_dropped_total", "Log lines lost because their reader was slow or writing failed."
)


class LogWriter:
    """Accepts complete lines, each with its line feed."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._queue: deque[bytes] = deque()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def write(self, line: bytes) -> None:
        """Write a line, or queue it after `start`. Never raises, and after `start` never blocks."""
        if self._thread is None:
            self._send(line, 1)
        elif len(self._queue) < MAX_QUEUED:
            self._queue.append(line)
        else:
            DROPPED.inc()

    def start(self) -> None:
        """Start the thread, which flushes at exit."""
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()
        Finalize(None, self.stop, exitpriority=0)  # Workers don't run atexit handlers.

    def stop(self) -> None:
        """Flush. Later lines are written directly, unless this takes longer than STOP_SECONDS."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
            if not self._thread.is_alive():
                self._thread = None
                self._flush()

    def _run(self) -> None:
        while not self._stopping.wait(FLUSH_SECONDS):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        for lines in self._batches():
            self._send(b"".join(lines), len(lines))

    def _batches(self) -> Iterator[list[bytes]]:
        """Yield single lines, or batches of at most PIPE_BUF bytes, which POSIX writes atomically."""
        batch: list[bytes] = []
        size = 0
        for _ in range(len(self._queue)):
            line = self._queue.popleft()
            if batch and size + len(line) > PIPE_BUF:
                yield batch
                batch, size = [], 0
            batch.append(line)
            size += len(line)
        if batch:
            yield batch

    def _send(self, data: bytes, line_count: int) -> None:
        remaining = memoryview(data)
        try:
            while remaining:
                remaining = remaining[os.write(self.descriptor, remaining) :]
        except OSError:  # The reader is gone or the disk is full. The service continues without its log.
            DROPPED.inc(line_count)


log_writer = LogWriter(2)


class QueuedHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode(errors="replace") + b"\n"
        except Exception:  # noqa: BLE001  `handleError` would print the arguments, which may be secret.
            location = f"{record.pathname}:{record.lineno}"
            line = f"A log message from {location} could not be formatted.\n".encode()
        log_writer.write(line)
