"""The memory-mapped files of the metrics of a worker.

prometheus_client creates them sparse. On a full disk, a write to a hole is a bus error, which kills the
worker. Preallocating the files prevents that.
"""

import os
from pathlib import Path

# Upper bounds: labels come from closed lists (see instrumentation.py).
BYTES = {
    "counter": 512 * 1024,
    "histogram": 1024 * 1024,
    "gauge_livesum": 64 * 1024,
    "gauge_livemin": 64 * 1024,
    "gauge_livemax": 64 * 1024,
}


class Process:
    """The cached process id; prometheus_client would call getpid for each update."""

    id = os.getpid()

    @classmethod
    def refresh(cls) -> None:
        cls.id = os.getpid()


os.register_at_fork(after_in_child=Process.refresh)


def preallocate() -> None:
    """Allocate this process's files. Raises OSError if the disk is full."""
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if not folder:
        return
    for kind, size in BYTES.items():
        with (Path(folder) / f"{kind}_{Process.id}.db").open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, size)
