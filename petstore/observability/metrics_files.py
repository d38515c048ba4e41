"""The memory-mapped files in which a worker stores its metrics.

prometheus_client creates sparse files. On a full disk, writing to a hole is a bus error, which kills the
worker. Preallocated files have no holes.
"""

import os
from pathlib import Path

# In bytes. Labels come from closed lists (see instrumentation.py), so these are upper bounds.
FILE_SIZES = {
    "counter": 512 * 1024,
    "histogram": 1024 * 1024,
    "gauge_livesum": 64 * 1024,
    "gauge_livemin": 64 * 1024,
    "gauge_livemax": 64 * 1024,
}


class CurrentProcess:
    """Caches the process ID, for which prometheus_client would call getpid on each update."""

    pid = os.getpid()

    @classmethod
    def refresh(cls) -> None:
        cls.pid = os.getpid()


os.register_at_fork(after_in_child=CurrentProcess.refresh)


def preallocate_metrics_files() -> None:
    """Allocate this process's files. Raises OSError if the disk is full."""
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if not folder:
        return
    for kind, size in FILE_SIZES.items():
        with (Path(folder) / f"{kind}_{CurrentProcess.pid}.db").open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, size)
