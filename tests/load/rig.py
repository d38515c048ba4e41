"""A service under load: its own PostgreSQL and Redis, a filled database, and samples of its resources."""

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
from tests.support.live import Service, migrated_server
from tests.support.postgresql import postgresql_server
from tests.support.servers import free_port, redis_server

KEYS = 200  # Fewer in a shop with fewer pets.
WORKERS = 2
WARM = 2  # Seconds.
HALVINGS = 3
PACE_SECONDS = 30
IN_TIME = 0.25  # The 99th percentile that counts as in time, in seconds.
BACKENDS = """SELECT count(*) FROM pg_stat_activity
              WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"""
MOST = 1_000  # Connections that a load below the capacity may need during a short pause.
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

    def client(self, patience: float = 10) -> Client:
        return Client(self.port, self.shop, patience=patience)

    def capacity(self, options: argparse.Namespace) -> float:
        """The maximum throughput of the warm service, in requests per second."""
        return max(self.throughputs(options))

    def sustained(self, options: argparse.Namespace) -> float:
        """The highest steady rate that the service serves in time, in requests per second.

        Lower than in the closed loop, which limits concurrency, and waits while the machine is slow for a
        moment. Found by bisection, to a sixteenth of the capacity.
        """
        high = self.capacity(options)
        least = low = high / 2
        for _ in range(HALVINGS):
            rate = (low + high) / 2
            low, high = (rate, high) if self.keeps_up(rate) else (low, rate)
        assert low > least or self.keeps_up(low), "Not even half of what the closed loop reaches lasts."
        return low

    def keeps_up(self, rate: float) -> bool:
        """Whether the service serves requests at this rate, all of them and in time."""
        record = self.client().run([Phase(PACE_SECONDS, rate, MOST)])
        p99 = record.milliseconds(0.99)[0]
        print(f"{rate:,.0f} requests a second offered: p99 {p99:,.0f} ms, {report(record.kinds())} failed.")
        return not record.kinds() and p99 < 1000 * IN_TIME

    def throughputs(self, options: argparse.Namespace) -> list[float]:
        """The throughput of a warm service by number of connections."""
        self.closed_loop(WARM, options.connections[0])
        seconds = options.capacity_seconds / len(options.connections)
        return [self.closed_loop(seconds, connections) for connections in options.connections]

    def closed_loop(self, seconds: float, connections: int) -> float:
        """The throughput over this many connections that are always busy."""
        client = self.client()
        record = client.run([Phase(seconds, None, connections)])
        assert not record.kinds(), f"Failures in the closed loop: {record.kinds()}\n{tail(self.service)}"
        found = record.good() / seconds
        p99 = record.milliseconds(0.99)[0]
        writing = Record(row for row in record if row.operation in WRITES).milliseconds(0.99)[0]
        print(
            f"{found:,.0f} requests a second over {connections} connections, "
            f"p99 {p99:,.0f} ms, that of writes {writing:,.0f} ms; "
            f"the client took {client.core_seconds / client.seconds:.0%} of a core.",
            flush=True,
        )
        return found


@contextmanager
def rig(options: argparse.Namespace, *, sqlite: Path | None = None) -> Iterator[Rig]:
    """Yield a service with two workers, on PostgreSQL and Redis, or on an SQLite file."""
    os.environ |= environment.FIXED
    port = str(free_port())
    own = {"PORT": port, "BASE_URL": f"http://127.0.0.1:{port}/v1", "DATABASE_URL": f"sqlite:///{sqlite}"}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if sqlite is None:
            server = stack.enter_context(
                postgresql_server("max_connections=200", copy_of=migrated_server())
            )
            redis = stack.enter_context(redis_server(folder))
            own |= {"DATABASE_URL": server.url, "REDIS_URL": redis.url}
        service = Service(os.environ | own | chosen(options), folder)
        fill(service, folder / "keys", pets=options.pets, count=min(KEYS, options.pets))
        keys = (folder / "keys").read_text().split()
        if sqlite is None:
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE")
                connection.execute("CHECKPOINT")
            os.sync()  # So that the writes of the fill delay no later commit.
        stack.callback(stop, service)
        service.start(WORKERS)
        yield Rig(service, Shop(keys, options.pets), int(port))


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
    """The last lines of the service's error output."""
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
            client.end()


def make_parser(description: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--serve-mode", choices=("threads", "loop"), help="How the service serves.")
    made.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="A setting of the service."
    )
    made.add_argument("--pets", type=int, default=20_000)
    made.add_argument(
        "--connections", type=int, nargs="+", default=[32, 128], help="That find the capacity: the best."
    )
    made.add_argument("--capacity-seconds", type=float, default=10)
    return made


def at_least(least: Number, why: str) -> Callable[[str], Number]:
    """A parser of an option of that type, which rejects values below the minimum."""

    def number(text: str) -> Number:
        given = type(least)(text)
        if not given >= least:  # Rejects NaN, too.
            sentence = f"{given:g} is too little to see {why}. Give at least {least:g}."
            raise argparse.ArgumentTypeError(sentence)
        return given

    return number


def arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line, and make SIGTERM stop the load in order, with its processes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Ended by SIGTERM."))
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> dict[str, str]:
    pairs = (one.partition("=") for one in options.set)
    mode = {"SERVE_MODE": options.serve_mode} if options.serve_mode else {}
    return {name: value for name, _, value in pairs} | mode


def report(kinds: dict[str, int]) -> str:
    """Failures by kind, as text."""
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items())) or "none"


def conclude(goals: dict[str, bool]) -> None:
    """Print which goals were reached; exit status 1 if one was missed."""
    for goal, reached in goals.items():
        print(f"{'ok    ' if reached else 'MISSED'}  {goal}")
    sys.exit(0 if all(goals.values()) else 1)
