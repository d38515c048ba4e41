"""The throughput of the service, and the cost of its requests, with two workers: needs wrk.

    python -m tests.load.requests [--seconds 5] [--rounds 3] [--connections 16] [--pets 100000]
                                  [--operations list,get]

Uses a database of its own on the PostgreSQL server of DATABASE_URL (or an SQLite file without one).
"""

import argparse
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests import environment
from tests.support.live import Service, live_service
from tests.support.servers import memory_mib

OPERATIONS = ("list", "list100", "get", "create", "mixed")
TICK = os.sysconf("SC_CLK_TCK")
# 50 categories; pets with the ids from 1, three of five available; and keys of one account each.
FILL = """
from accounts.models import Account, Actor, ApiKey, PlanCode
from inventory.models import Category, Pet
count = Category.objects.count()
Category.objects.bulk_create(Category(name=f"Kind {{n}}") for n in range(count, 50))
statuses = ("available", "pending", "available", "sold", "available")
Pet.objects.bulk_create(
    (Pet(name=f"Pet number {{n}}", category_id=1 + n % 50, status=statuses[n % 5]) for n in range({pets})),
    batch_size=1000,
)
for number in range(1000):
    limits = {{"per_minute": 10**9, "per_day": 10**9}}
    account = Account.objects.create(name=f"Load {{number}}", plan_id=PlanCode.ENTERPRISE, **limits)
    print(ApiKey.objects.issue(account, by=Actor("load test"))[1])
"""
HEAD = f"{'':10}{'a second':>10}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>9}{'not 2xx':>9}"


class Round(NamedTuple):
    """The results of one run of wrk."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float  # CPU time of the service's processes per request.
    bad: float


def cpu_seconds(pids: list[int]) -> float:
    """The CPU time of processes, user and system."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split() for pid in pids]
    return sum(int(one[11]) + int(one[12]) for one in fields) / TICK


def run(service: Service, keys: Path, operation: str, seconds: int, options: argparse.Namespace) -> Round:
    pids = service.processes()
    cpu_before = cpu_seconds(pids)
    done = subprocess.run(
        [
            "wrk", "-t1", f"-c{options.connections}", f"-d{seconds}s", "--timeout", "10s",
            "-s", str(Path(__file__).with_name("requests.lua")), service.url,
            "--", operation, str(keys), str(options.pets),
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    cpu = cpu_seconds(pids) - cpu_before
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    requests, microseconds, p50, p99, bad = map(int, line.split()[1:])
    return Round(requests / microseconds * 1e6, p50 / 1e3, p99 / 1e3, cpu / max(1, requests) * 1e6, bad)


def main(options: argparse.Namespace) -> None:
    """Print the medians of each operation, and the memory."""
    os.environ |= environment.FIXED | {"DJANGO_SETTINGS_MODULE": "petstore.settings"}
    os.environ.setdefault("DATABASE_URL", "sqlite:///unused")
    with tempfile.TemporaryDirectory() as folder, live_service(Path(folder), workers=2) as service:
        keys = Path(folder) / "keys"
        keys.write_text(service.manage("shell", "--no-imports", "-c", FILL.format(pets=options.pets)))
        print(HEAD)
        for operation in options.operations.split(","):
            run(service, keys, operation, 1, options)  # Warms up.
            rounds = [
                run(service, keys, operation, options.seconds, options) for _ in range(options.rounds)
            ]
            median = Round(*map(statistics.median, zip(*rounds, strict=True)))
            print(
                f"{operation[:9]:10}{median.per_second:>10,.0f}{median.p50_ms:>9.1f}{median.p99_ms:>9.1f}"
                f"{median.cpu_us:>9.0f}{median.bad:>9.0f}",
                flush=True,
            )
        print(f"Memory of all processes: {memory_mib(service.processes()):.0f} MiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--pets", type=int, default=100_000)
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    main(parser.parse_args())
