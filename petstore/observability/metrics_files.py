"""The folder in which the workers of a service store their metrics, in memory-mapped files.

prometheus_client creates sparse files. On a full disk, writing to a hole is a bus error, which kills the
worker. Preallocated files have no holes.

When a worker exits, the supervisor adds its counts to the files of process 0, so restarts don't fill the
folder. A lock keeps readers from seeing these counts twice.
"""

import fcntl
import mmap
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from prometheus_client import REGISTRY, mmap_dict, values
from prometheus_client.metrics import MetricWrapperBase

PREFIX = "petstore-metrics-"
MIN_ABANDONED_SECONDS = 60  # A service that is starting has not yet locked its folder.

MetricsFile: Any = mmap_dict.MmapedDict  # The class has no type annotations.

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
    _lock = threading.Lock()

    @classmethod
    def count_worker_exit(cls) -> None:
        with cls._lock:
            cls.worker_exits[0] += 1


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
        (Path(folder) / "lock").touch()
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


def lock_metrics_files(folder: str, operation: int) -> AbstractContextManager[None]:
    return lock(Path(folder) / "lock", operation)


def preallocate_metrics_files() -> None:
    """Allocate the files of this new worker. If that fails, it stores its metrics in memory.

    Metrics without labels got their values in the supervisor, in memory, and get new ones in the files.
    """
    folder = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])
    pid = os.getpid()
    try:
        for kind, size in FILE_SIZES.items():
            new = folder / f"{kind}_{pid}.new"  # An empty .db file could not be read.
            with new.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, size)
            new.rename(new.with_suffix(".db"))
    except OSError:
        values.ValueClass = values.MutexValue
        for path in folder.glob(f"*_{pid}.*"):
            path.unlink()
    else:
        # By default, prometheus_client calls getpid on each update.
        values.ValueClass = values.MultiProcessValue(lambda: pid)  # type: ignore[no-untyped-call]
        for metric in REGISTRY._collector_to_names:
            if isinstance(metric, MetricWrapperBase) and not metric._labelnames:
                metric._metric_init()  # type: ignore[no-untyped-call]


def lacks_space() -> bool:
    """Return whether the metrics of this worker are missing from /metrics."""
    return "PROMETHEUS_MULTIPROC_DIR" in os.environ and values.ValueClass is values.MutexValue


def merge_metrics_files(folder: str, pid: int) -> None:
    """Add the counts of a worker that has exited to those of process 0, and delete its files."""
    with lock_metrics_files(folder, fcntl.LOCK_EX):
        for path in Path(folder).glob(f"gauge_*_{pid}.db"):
            path.unlink()
        for kind in ("counter", "histogram"):
            path, total = (Path(folder) / f"{kind}_{number}.db" for number in (pid, 0))
            if not path.exists():
                continue
            if not total.exists():
                path.rename(total)
                continue
            totals = MetricsFile(str(total))
            for key, value, timestamp, _ in MetricsFile.read_all_values_from_file(str(path)):
                totals.write_value(key, totals.read_value(key)[0] + value, timestamp)
            totals.close()
            path.unlink()
