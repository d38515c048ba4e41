"""The throughput of the service, and the cost of its requests: see README.md beside this file.

    python -m tests.load.requests [--seconds 5] [--rounds 3] [--connections 16] [--pets 100000]
                                  [--set NAME=VALUE]

Uses a database of its own on the PostgreSQL server of DATABASE_URL (or an SQLite file without one), and
`manage.py serve` with two workers. Needs wrk. Each `--set` adds another
service with this environment variable on the same database, which is measured in turn with the first.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests import environment
from tests.support.live import ROOT, Service, live_service
from tests.support.packages import python

OPERATIONS = ("list", "list100", "get", "create", "keyed", "replayed", "orders", "mixed")
KEYS = 1_000
TICK = os.sysconf("SC_CLK_TCK")


class Round(NamedTuple):
    """The results of one run of wrk."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float  # CPU time of the service's processes per request.
    bad: int


def cpu_seconds(pids: list[int]) -> float:
    """The CPU time of processes, user and system."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split() for pid in pids]
    return sum(int(one[11]) + int(one[12]) for one in fields) / TICK


def memory_mib(pids: list[int]) -> float:
    """The memory of processes; shared pages count once (PSS)."""
    rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() for pid in pids]
    return (
        sum(int(line.split()[1]) for rollup in rollups for line in rollup if line.startswith("Pss:")) / 1024
    )


class Target(NamedTuple):
    """A service to measure."""

    service: Service
    keys: Path  # One per line.
    pets: int


def run(
    target: Target, operation: str, seconds: int, connections: int, *, pause_ms: int | None = None
) -> Round:
    """Run wrk; with a pause, each connection waits this long before each request."""
    pause = [] if pause_ms is None else [str(pause_ms)]
    pids = target.service.processes()
    cpu_before = cpu_seconds(pids)
    done = subprocess.run(
        [
            "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s",
            "-s", str(Path(__file__).with_name("requests.lua")), target.service.url,
            "--", operation, str(target.keys), str(target.pets), *pause,
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    cpu = cpu_seconds(pids) - cpu_before
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    requests, microseconds, p50, p99, bad = map(int, line.split()[1:])
    return Round(requests / microseconds * 1e6, p50 / 1e3, p99 / 1e3, cpu / max(1, requests) * 1e6, bad)


def fill(service: Service, keys: Path, *, pets: int, count: int) -> None:
    """Migrate and fill the service's database; the file gets the keys, one per line."""
    sizes = ("--pets", str(pets), "--keys", str(count), "--keys-out", str(keys))
    command = [python(), "-m", "tests.load.fill", *sizes]
    subprocess.run(command, cwd=ROOT, env=service.environment, check=True, stdout=subprocess.DEVNULL)


def compare(running: dict[str, Target], operation: str, options: argparse.Namespace) -> None:
    """Measure an operation on each service in turn, and print the medians; ratios are to the first."""
    for target in running.values():
        run(target, operation, 1, options.connections)  # Warms up.
    found: dict[str, list[Round]] = {name: [] for name in running}
    for _ in range(options.rounds):
        for name, target in running.items():
            found[name].append(run(target, operation, options.seconds, options.connections))
    base = next(iter(found.values()))
    for name, rounds in found.items():
        per_second, p50, p99, cpu, bad = (statistics.median(one) for one in zip(*rounds, strict=True))
        ratio = statistics.median(
            mine.per_second / first.per_second for mine, first in zip(rounds, base, strict=True)
        )
        print(
            f"{operation[:9]:10}{name:30}{per_second:>10,.0f}{ratio:>7.2f}"
            f"{p50:>9.1f}{p99:>9.1f}{cpu:>9.0f}{bad:>9.0f}",
            flush=True,
        )


HEAD = f"{'':40}{'a second':>10}{'ratio':>7}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>9}{'not 2xx':>9}"


def main(options: argparse.Namespace) -> None:
    os.environ |= environment.FIXED | {"DJANGO_SETTINGS_MODULE": "petstore.settings"}
    os.environ.setdefault("DATABASE_URL", "sqlite:///unused")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        first = stack.enter_context(live_service(folder, workers=2))
        keys = folder / "keys"
        fill(first, keys, pets=options.pets, count=KEYS)
        running = {"default": Target(first, keys, options.pets)}
        shared = {"DATABASE_URL": first.environment["DATABASE_URL"]}
        for number, pair in enumerate(options.set):
            (place := folder / str(number)).mkdir()
            settings = shared | dict([pair.split("=", 1)])
            service = stack.enter_context(live_service(place, workers=2, **settings))
            running[pair] = Target(service, keys, options.pets)
        print(HEAD)
        for operation in options.operations.split(","):
            compare(running, operation, options)
        for name, target in running.items():
            print(f"Memory of all processes, {name}: {memory_mib(target.service.processes()):.0f} MiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--pets", type=int, default=100_000)
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    main(parser.parse_args())
