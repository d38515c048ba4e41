"""The folder in which the workers of a service store their metrics, in memory-mapped files.

prometheus_client creates sparse files. On a full disk, writing to a hole is a bus error, which kills the
worker. Preallocated files have no holes.

Each worker has the files of a slot. Once it has exited, the next worker gets its slot and continues its
counts, so restarts neither lose counts nor fill the folder.
"""

import fcntl
import mmap
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir
from typing import ClassVar

from prometheus_client import REGISTRY, values
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.multiprocess import mark_process_dead

PREFIX = "petstore-metrics-"
MIN_ABANDONED_SECONDS = 60  # A service that is starting has not yet locked its folder.

# In bytes. Labels come from closed lists (see instrumentation.py), so these are upper bounds.
FILE_SIZES = {
    "counter": 512 * 1024,
    "histogram": 1024 * 1024,
    "gauge_livesum": 64 * 1024,
    "gauge_livemin": 64 * 1024,
    "gauge_livemax": 64 * 1024,
}


class Supervisor:
    """The state of the supervisor, which its workers inherit."""

    workers = 0
    started_at = time.time()
    worker_exits = memoryview(mmap.mmap(-1, 8)).cast("q")  # One integer in shared memory.
    slot = 0  # Of the worker that is being started.
    _used_slots: ClassVar[set[int]] = set()
    _lock = threading.Lock()

    @classmethod
    def count_worker_exit(cls) -> None:
        with cls._lock:
            cls.worker_exits[0] += 1

    @classmethod
    def take_slot(cls) -> int:
        """Reserve the lowest free slot for a new worker, which may start before the old one stops."""
        with cls._lock:
            cls.slot = next(slot for slot in count() if slot not in cls._used_slots)
            cls._used_slots.add(cls.slot)
            return cls.slot

    @classmethod
    def release_slot(cls, slot: int) -> None:
        """Delete the gauges of a worker that has exited, and keep its counts for the next one."""
        with suppress(OSError):  # The worker must be replaced in any case.
            mark_process_dead(slot)  # type: ignore[no-untyped-call]
        with cls._lock:
            cls._used_slots.remove(slot)


@contextmanager
def create_metrics_folder(parent: str) -> Iterator[str]:
    """Create a folder, and delete it at the end. Also delete the folders of services that were killed.

    The supervisor locks its folder, and its workers inherit the lock. Exits if the folder can't be created.
    """
    try:
        parent = parent or gettempdir()
        for path in Path(parent).glob(f"{PREFIX}*"):
            with suppress(OSError), lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
                if time.time() - path.stat().st_mtime > MIN_ABANDONED_SECONDS:
                    rmtree(path)
        temporary = TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True)
    except OSError as error:  # Even a folder needs space on most file systems.
        sys.exit(f"petstore: The metrics need a folder with space; set METRICS_DIR. {error}")
    with temporary as folder, lock(Path(folder), fcntl.LOCK_SH):
        yield folder


@contextmanager
def lock(path: Path, operation: int) -> Iterator[None]:
    """Lock a file or folder (flock(2)), but not through a symbolic link. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        # Closing it does not suffice, because a worker may just have inherited the descriptor.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def preallocate_metrics_files() -> None:
    """Allocate the missing files of this new worker. If that fails, it stores its metrics in memory.

    Metrics without labels got their values in the supervisor, in memory, and get new ones in the files.
    """
    folder = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])
    slot = Supervisor.slot
    files = {folder / f"{kind}_{slot}.db": size for kind, size in FILE_SIZES.items()}
    missing = [path for path in files if not path.exists()]
    try:
        for path in missing:
            new = path.with_suffix(".new")  # An empty .db file could not be read.
            with new.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, files[path])
            new.rename(path)
    except OSError:
        values.ValueClass = values.MutexValue
        for path in missing:
            path.unlink(missing_ok=True)
            path.with_suffix(".new").unlink(missing_ok=True)
    else:
        values.ValueClass = values.MultiProcessValue(lambda: slot)  # type: ignore[no-untyped-call]
        for metric in REGISTRY._collector_to_names:
            if isinstance(metric, MetricWrapperBase) and not metric._labelnames:
                metric._metric_init()  # type: ignore[no-untyped-call]


def lacks_space() -> bool:
    """Return whether the metrics of this worker are missing from /metrics."""
    return "PROMETHEUS_MULTIPROC_DIR" in os.environ and values.ValueClass is values.MutexValue
