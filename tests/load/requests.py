"""How many requests the service answers, and what they cost it: see README.md beside this file.

    python -m tests.load.requests [--seconds 5] [--rounds 3] [--connections 16] [--pets 100000]

Uses a database of its own on the PostgreSQL server of DATABASE_URL (or an SQLite file without one), a Redis
of its own (unless --no-redis), and `manage.py serve` with two workers. Needs wrk.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests import environment
from tests.live import ROOT, Service, live_service
from tests.servers import redis_server

OPERATIONS = ("list", "list100", "get", "create", "mixed")
KEYS = 1_000
TICK = os.sysconf("SC_CLK_TCK")


class Round(NamedTuple):
    """What one run of wrk found."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float  # Of the service's processes, for each request.
    bad: int


def processes(service: Service) -> list[int]:
    """Return the service's process ids: the one that was started, and its workers."""
    assert service.process is not None
    parent = service.process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [parent, *map(int, children)]


def cpu_seconds(pids: list[int]) -> float:
    """Return the time that processes have had a core, in and out of the kernel."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split() for pid in pids]
    return sum(int(one[11]) + int(one[12]) for one in fields) / TICK


def memory_mib(pids: list[int]) -> float:
    """Return the memory of processes; what they share counts once (PSS)."""
    rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() for pid in pids]
    return (
        sum(int(line.split()[1]) for rollup in rollups for line in rollup if line.startswith("Pss:")) / 1024
    )


def run(service: Service, operation: str, keys: Path, options: argparse.Namespace) -> Round:
    """Send requests for a while."""
    pids = processes(service)
    before = cpu_seconds(pids)
    done = subprocess.run(
        [
            "wrk", "-t1", f"-c{options.connections}", f"-d{options.seconds}s", "--timeout", "10s",
            "-s", str(Path(__file__).with_name("requests.lua")), service.url,
            "--", operation, str(keys), str(options.pets),
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    spent = cpu_seconds(pids) - before
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    requests, microseconds, p50, p99, bad = map(int, line.split()[1:])
    return Round(requests / microseconds * 1e6, p50 / 1e3, p99 / 1e3, spent / max(1, requests) * 1e6, bad)


def main(options: argparse.Namespace) -> None:
    """Measure and print."""
    os.environ |= environment.FIXED
    os.environ.setdefault("DATABASE_URL", "sqlite:///unused")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = "" if options.no_redis else stack.enter_context(redis_server(folder)).url
        service = stack.enter_context(live_service(folder, workers=2, REDIS_URL=redis))
        keys = folder / "keys"
        sizes = ("--pets", str(options.pets), "--keys", str(KEYS), "--keys-out", str(keys))
        subprocess.run(
            [sys.executable, "-m", "tests.load.fill", *sizes], cwd=ROOT, env=service.environment, check=True
        )
        print(f"{'':10}{'a second':>10}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>9}{'not 2xx':>9}")
        for operation in OPERATIONS:
            run(service, operation, keys, argparse.Namespace(**vars(options) | {"seconds": 1}))  # Warms up.
            rounds = [run(service, operation, keys, options) for _ in range(options.rounds)]
            per_second, p50, p99, cpu, bad = (statistics.median(one) for one in zip(*rounds, strict=True))
            print(
                f"{operation:10}{per_second:>10,.0f}{p50:>9.1f}{p99:>9.1f}{cpu:>9.0f}{bad:>9.0f}",
                flush=True,
            )
        print(f"Memory of all processes: {memory_mib(processes(service)):.0f} MiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--pets", type=int, default=100_000)
    parser.add_argument("--no-redis", action="store_true")
    main(parser.parse_args())
