"""Writes log lines: directly to standard error, or, in a worker, to standard output from a thread.

A worker queues its lines, and the thread writes them every 0.2 s and at the end. When the reader of the
pipe stalls, only the thread blocks; lines beyond MAX_QUEUED are dropped and counted.
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
STOP_SECONDS = 1.0  # For the last lines at the end of a process.

DROPPED = Counter(
    "petstore_log_lines_dropped_total", "Log lines that were dropped, because their reader was too slow."
)


class LogWriter:
    """Accepts complete lines, each with its line feed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
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

    def start(self, descriptor: int) -> None:
        """Write to this file descriptor from a thread from now on, and flush at exit."""
        self._descriptor = descriptor
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()
        Finalize(None, self.stop, exitpriority=0)  # Workers don't run atexit handlers.

    def stop(self) -> None:
        """Flush within STOP_SECONDS. Later lines are written directly."""
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
        """Yield batches of at most PIPE_BUF bytes, which POSIX writes atomically; longer lines alone."""
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

    def _send(self, text: bytes, lines: int) -> None:
        rest = memoryview(text)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:  # The reader is gone or the disk is full: continue without the log.
            DROPPED.inc(lines)


log_writer = LogWriter(2)


class QueuedHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode(errors="replace") + b"\n"
        except Exception:  # noqa: BLE001  The default handler prints the record's arguments, including secrets.
            place = f"{record.pathname}:{record.lineno}"
            line = f"A log message of {place} could not be formed.\n".encode()
        log_writer.write(line)
