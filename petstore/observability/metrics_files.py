"""The files in which a worker keeps its numbers, in memory that it shares with whoever reads them.

prometheus_client makes them of holes, which get room when a number is written: on a full disk that write is
a bus error, and the end of the worker. With their room taken at the start, no number can do that.
"""

import os
from pathlib import Path

# More than each kind holds: labels come from closed lists (see requests.py).
BYTES = {
    "counter": 512 * 1024,
    "histogram": 1024 * 1024,
    "gauge_livesum": 64 * 1024,
    "gauge_livemin": 64 * 1024,
    "gauge_livemax": 64 * 1024,
}


class Process:
    """This process: prometheus_client would ask the kernel for its id with each number."""

    id = os.getpid()

    @classmethod
    def look(cls) -> None:
        cls.id = os.getpid()


os.register_at_fork(after_in_child=Process.look)


def preallocate() -> None:
    """Make this process's files, with their room. Raises OSError where there is none."""
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if not folder:
        return
    for kind, size in BYTES.items():
        with (Path(folder) / f"{kind}_{Process.id}.db").open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, size)
