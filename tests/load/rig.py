"""A service under load: its own PostgreSQL, a filled database, and samples of its resources."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import psycopg

from tests import environment
from tests.load.client import Client, Phase
from tests.load.record import Record
from tests.load.requests import fill, memory_mib
from tests.load.shop import WRITES, Shop
from tests.support.live import Service, migrated_server, stopped_service
from tests.support.postgresql import postgresql_server

KEYS = 200  # Fewer in a shop with fewer pets.
WORKERS = 2
WARM_UP_SECONDS = 2
BISECTIONS = 3
RATE_SECONDS = 30  # For testing whether a rate is sustained.
MAX_P99 = 0.25  # Seconds: the slowest 99th percentile of a sustained rate.
BACKENDS = """SELECT count(*) FROM pg_stat_activity
              WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"""
MAX_CONNECTIONS = 1_000  # That a load below the capacity may need during a short pause.
Number = TypeVar("Number", int, float)


@dataclass
class Rig:
    """A running service and its servers."""

    service: Service
    shop: Shop
    port: int  # The service's port, or that of a proxy in front of it.

    @property
    def database(self) -> str:
        return self.service.environment["DATABASE_URL"]

    def client(self) -> Client:
        return Client(self.port, self.shop)

    def sustainable_rate(self, options: argparse.Namespace) -> float:
        """The highest steady rate that the service serves in time, in requests per second.

        Lower than in the closed loop, which limits concurrency, and waits while the machine is briefly
        slow. Found by bisection, to a sixteenth of the peak.
        """
        high = max(self.throughputs(options))
        half = low = high / 2
        for _ in range(BISECTIONS):
            rate = (low + high) / 2
            low, high = (rate, high) if self.sustains(rate) else (low, rate)
        assert low > half or self.sustains(low), "Not even half the peak throughput is sustainable."
        return low

    def sustains(self, rate: float) -> bool:
        """Whether the service serves requests at this rate, all of them and in time."""
        record = self.client().run([Phase(RATE_SECONDS, rate, MAX_CONNECTIONS)])
        p99 = record.milliseconds(0.99)[0]
        failed = format_failures(record)
        print(f"{rate:,.0f} requests a second offered: p99 {p99:,.0f} ms, {failed} failed.")
        return not record.failures() and p99 < 1000 * MAX_P99

    def throughputs(self, options: argparse.Namespace) -> list[float]:
        """The peak throughput of a warm service by number of connections."""
        self.closed_loop(WARM_UP_SECONDS, options.connections[0])
        seconds = options.capacity_seconds / len(options.connections)
        return [self.closed_loop(seconds, connections) for connections in options.connections]

    def closed_loop(self, seconds: float, connections: int) -> float:
        """The throughput over this many connections that are always busy."""
        client = self.client()
        record = client.run([Phase(seconds, None, connections)])
        assert not record.failures(), f"Failures: {record.failures()}\n{tail(self.service)}"
        found = record.good() / seconds
        p99 = record.milliseconds(0.99)[0]
        writes = Record(row for row in record if row.operation in WRITES).milliseconds(0.99)[0]
        print(
            f"{found:,.0f} requests a second over {connections} connections, "
            f"p99 {p99:,.0f} ms, that of writes {writes:,.0f} ms; "
            f"the client took {client.cpu_seconds / client.seconds:.0%} of a core.",
            flush=True,
        )
        return found


@contextmanager
def rig(options: argparse.Namespace, *, sqlite: Path | None = None) -> Iterator[Rig]:
    """Yield a service with two workers, on PostgreSQL, or on an SQLite file."""
    os.environ |= environment.FIXED
    settings = dict(one.split("=", 1) for one in options.set)
    if options.serve_mode:
        settings["SERVE_MODE"] = options.serve_mode
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = f"sqlite:///{sqlite}"
        if sqlite is None:
            server = stack.enter_context(
                postgresql_server("max_connections=200", copy_of=migrated_server())
            )
            url = server.url
        service = stopped_service(folder, url, **settings)
        fill(service, folder / "keys", pets=options.pets, count=min(KEYS, options.pets))
        keys = (folder / "keys").read_text().split()
        if sqlite is None:
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE")
                connection.execute("CHECKPOINT")
            os.sync()  # Otherwise the writes of the fill would delay later commits.
        stack.callback(stop, service)
        service.start(WORKERS)
        yield Rig(service, Shop(keys, options.pets), int(service.environment["PORT"]))


def stop(service: Service) -> None:
    """Stop the service, and its remaining processes after a kill."""
    if service.process is None:
        return
    pids = service.processes()
    service.stop()
    for pid in pids:
        if Path(f"/proc/{pid}/cmdline").exists() and b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


def tail(service: Service) -> str:
    """The last lines of the service's log that are no routine."""
    lines = (line for line in service.log().splitlines() if '"level":"info"' not in line)
    return "\n".join(list(lines)[-20:])


class Sample(NamedTuple):
    """The service's resources at one time."""

    second: float
    mib: float
    files: int
    connections: int  # To PostgreSQL.


def sample(rig: Rig, second: float, clients: int) -> Sample:
    """Measure the service's processes and PostgreSQL. Client connections do not count as files."""
    pids = rig.service.processes()
    files = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)  # noqa: PTH208  # Names only.
    with psycopg.connect(rig.database) as connection:
        row = connection.execute(BACKENDS).fetchone()
    assert row is not None
    return Sample(second, memory_mib(pids), files - clients, int(row[0]))


@contextmanager
def loaded(client: Client, *phases: Phase) -> Iterator[Future[Record]]:
    """Run a client during the block, then stop it."""
    with ThreadPoolExecutor(1, thread_name_prefix="load") as pool:
        future = pool.submit(client.run, phases)
        try:
            yield future
        finally:
            client.stop()


def make_parser(description: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--serve-mode", choices=("threads", "loop"), help="SERVE_MODE of the service.")
    made.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="A setting of the service."
    )
    made.add_argument("--pets", type=int, default=20_000)
    made.add_argument(
        "--connections", type=int, nargs="+", default=[32, 128], help="To try for the peak throughput."
    )
    made.add_argument("--capacity-seconds", type=float, default=10)
    return made


def at_least(minimum: Number, purpose: str) -> Callable[[str], Number]:
    """A parser of an option of that type, which rejects values below the minimum."""

    def parse(text: str) -> Number:
        number = type(minimum)(text)
        if not number >= minimum:  # Rejects NaN, too.
            sentence = f"{number:g} is too little to measure {purpose}. Give at least {minimum:g}."
            raise argparse.ArgumentTypeError(sentence)
        return number

    return parse


def parse_arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line, and let SIGTERM stop the load and its processes cleanly."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Terminated by SIGTERM."))
    return parser.parse_args()


def format_failures(record: Record) -> str:
    """The failures by kind."""
    failures = sorted(record.failures().items())
    return ", ".join(f"{count:,} {kind}" for kind, count in failures) or "none"


def conclude(goals: dict[str, bool]) -> None:
    """Print which goals were reached; exit status 1 if one was missed."""
    for goal, reached in goals.items():
        print(f"{'ok    ' if reached else 'MISSED'}  {goal}")
    sys.exit(0 if all(goals.values()) else 1)
