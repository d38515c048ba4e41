"""Fixed-window counters in memory that all processes of a machine share.

Requests without a valid key can't be counted in the database: a flood must not reach it, and malformed keys
are rejected during its outages as well (D16). A memory-mapped file of fixed size holds the counters. It may
be deleted while the service is stopped.
"""

import fcntl
import logging
import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from weakref import finalize

logger = logging.getLogger(__name__)

COUNTER = Struct("=QQQ")  # The hash of its name, the count, and the end of its window.
NEIGHBORS = 8
BUCKET_BYTES = NEIGHBORS * COUNTER.size
BUCKETS = 8192


class LocalCounters:
    """Counters whose windows start with the first count. Times are in microseconds since the epoch.

    There are BUCKETS * NEIGHBORS of them. The hash of a name, which clients can't predict, selects its
    bucket. If it is full, a new name replaces the neighbor with the lowest count. So in a flood from random
    addresses, those that were counted once replace each other, and one over its limit remains.
    """

    def __init__(self, file: Path, secret: str, window: int) -> None:
        self._file = file
        self._hash_key = blake2b(secret.encode()).digest()
        self._window = window
        self._thread_lock = threading.Lock()  # A file lock only excludes other processes.
        self._descriptor = -1
        self._memory: mmap.mmap

    def count(self, name: str, now: int, increment: int = 1) -> tuple[int, int]:
        """Add to a counter. Returns its count and the end of its window."""
        name_hash = int.from_bytes(blake2b(name.encode(), digest_size=8, key=self._hash_key).digest())
        start = name_hash % BUCKETS * BUCKET_BYTES
        with self._lock_bucket(start) as memory:
            candidates = []
            for position in range(start, start + BUCKET_BYTES, COUNTER.size):
                owner, used, ends_at = COUNTER.unpack_from(memory, position)
                if not now < ends_at <= now + 2 * self._window:  # It is expired, or the clock was set back.
                    used, ends_at = 0, now + self._window
                candidates.append((owner != name_hash, used, position, ends_at))
            is_other, used, position, ends_at = min(candidates)
            if is_other:
                used, ends_at = 0, now + self._window
            used += increment
            if increment:
                COUNTER.pack_into(memory, position, name_hash, used, ends_at)
        return used, ends_at

    @contextmanager
    def _lock_bucket(self, start: int) -> Iterator[mmap.mmap]:
        """Lock a bucket. The kernel releases the lock of a process that is killed."""
        with self._thread_lock:
            if self._descriptor < 0:
                self._open()
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX, BUCKET_BYTES, start)
            try:
                yield self._memory
            finally:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, BUCKET_BYTES, start)

    def _open(self) -> None:
        size = BUCKETS * BUCKET_BYTES
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
            os.posix_fallocate(descriptor, 0, size)  # On a full disk, writing to a hole is a bus error.
        except OSError:
            logger.exception("This process counts requests without a key alone, since COUNTERS_DIR failed.")
            descriptor = os.memfd_create("counters")
            os.posix_fallocate(descriptor, 0, size)
        self._memory = mmap.mmap(descriptor, size)
        finalize(self, os.close, descriptor)
        self._descriptor = descriptor
