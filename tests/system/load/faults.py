"""Breaks what the service stands on, one thing at a time, under half the load that it can answer.

    python -m tests.system.load.faults [--only redis disk] [--serve-mode loop]

PostgreSQL, Redis and `manage.py serve` with two workers are its own; the full disk is a small file system
that it mounts, which takes root. For each fault it prints what failed and how, how long after the end of
the fault a request still failed, and what the database says to the journal of acknowledged writes. Ends
with 1 if a goal was missed.
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg

from tests.support.postgresql import FAST, IMMEDIATE, PostgreSQLServer
from tests.system.load.client import Client, Phase
from tests.system.load.record import Failure, Record, recovery_seconds, succeeded
from tests.system.load.rig import (
    MOST,
    WORKERS,
    Rig,
    arguments,
    conclude,
    loaded,
    make_parser,
    report,
    rig,
    wait,
)
from tests.system.load.shop import NOTHING, Findings

BEFORE = 3  # Seconds of load before the fault.
AWAY = 3  # Seconds for which a server is away.
AFTER = 8  # Seconds of load after it.
RECOVERED = 5.0  # Seconds: what the service may need once everything is back.
REFUSAL = 2.0  # Seconds until a client must have its answer while the database is away.
DISK = "64m"
PATIENCE = 20  # Seconds until the replica must have been read.
READS = "SELECT idx_scan + seq_scan FROM pg_stat_user_tables WHERE relname = 'inventory_pet'"
NOT_ANSWERED = (Failure.REFUSED, Failure.UNREACHED, Failure.LOST, Failure.SILENT, Failure.UNSENT)


class Moments(NamedTuple):
    """When a fault began and when its cause was gone, in seconds of the load."""

    begin: float
    end: float


class Result(NamedTuple):
    """What a fault did."""

    moments: Moments
    record: Record
    findings: Findings
    recovered: float | None


def kill_worker(rig: Rig, client: Client) -> Moments:
    """Kill one of the workers; another must take its place."""
    _, victim, *others = rig.service.processes()
    begin = client.now()
    os.kill(victim, signal.SIGKILL)

    def is_replaced() -> bool:
        return len(set(rig.service.processes()[1:]) - {victim, *others}) == 1

    wait(RECOVERED, until=is_replaced)
    assert is_replaced(), "Nobody has replaced the worker."
    return Moments(begin, begin)


def kill_redis(rig: Rig, client: Client) -> Moments:
    """Kill Redis, which keeps nothing on disk, and start it again."""
    assert rig.redis is not None
    begin = client.now()
    rig.redis.stop()
    wait(AWAY)
    rig.redis.start()
    return Moments(begin, client.now())


def restart(server: PostgreSQLServer | None, how: signal.Signals, client: Client) -> Moments:
    """Stop a PostgreSQL server in one of its ways, and start it again."""
    assert server is not None
    begin = client.now()
    server.stop(how)
    wait(AWAY)
    server.start()
    return Moments(begin, client.now())


def stop_fast(rig: Rig, client: Client) -> Moments:
    """Shut PostgreSQL down fast: it ends sessions and writes everything."""
    return restart(rig.postgresql, FAST, client)


def stop_immediately(rig: Rig, client: Client) -> Moments:
    """Shut PostgreSQL down at once: it recovers from its log when it starts."""
    return restart(rig.postgresql, IMMEDIATE, client)


def kill_replica(rig: Rig, client: Client) -> Moments:
    """Shut the replica down at once, when accounts that have not written for a while read from it."""
    assert rig.standby is not None
    with psycopg.connect(rig.standby.url, autocommit=True) as connection:

        def is_read() -> bool:
            return connection.execute(READS).fetchone() != (0,)

        wait(PATIENCE, until=is_read)
        assert is_read(), "Nobody has read from the replica."
    return restart(rig.standby, IMMEDIATE, client)


def fill_disk(rig: Rig, client: Client) -> Moments:
    """Leave no byte for the SQLite file and its log."""
    ballast = Path(rig.database.removeprefix("sqlite:///")).with_name("ballast")
    begin = client.now()
    fill_up(ballast)
    wait(AWAY, until=lambda: fill_up(ballast))  # A log that was cut short left some room.
    ballast.unlink()
    return Moments(begin, client.now())


def fill_up(file: Path) -> bool:
    """Write to a file until the disk is full; say that there is more to wait for."""
    with file.open("ab", buffering=0) as ballast:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while ballast.write(bytes(size)) == size:
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return False


def terminate(rig: Rig, client: Client) -> Moments:
    """Tell the service to stop, and start another when it has ended."""
    assert rig.service.process is not None
    begin = client.now()
    rig.service.process.terminate()
    rig.service.process.wait(30)
    assert rig.service.process.returncode == 0, f"The service ended with {rig.service.process.returncode}."
    rig.service.start(WORKERS)
    return Moments(begin, client.now())


class Fault(NamedTuple):
    """A fault, where it happens, and what may fail."""

    name: str
    cause: Callable[[Rig, Client], Moments]
    where: str  # postgresql, replica or sqlite.
    invisible: bool = False  # Clients notice nothing.
    refuses: bool = False  # What fails is refused in time, with 503.


FAULTS = {
    "worker": Fault("a worker killed", kill_worker, "postgresql"),
    "redis": Fault("Redis killed", kill_redis, "postgresql", invisible=True),
    "fast": Fault("PostgreSQL shut down fast", stop_fast, "postgresql", refuses=True),
    "immediate": Fault("PostgreSQL shut down immediately", stop_immediately, "postgresql", refuses=True),
    "terminate": Fault("the service told to stop", terminate, "postgresql"),
    "replica": Fault("the replica shut down immediately", kill_replica, "replica", invisible=True),
    "disk": Fault("the SQLite file's disk full", fill_disk, "sqlite", refuses=True),
}


@contextmanager
def small_disk() -> Iterator[Path]:
    """Mount a small file system of memory, and yield the SQLite file to be made on it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", folder], check=True)
        try:
            yield Path(folder) / "load.sqlite3"
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def place(where: str, options: argparse.Namespace) -> Iterator[Rig]:
    """Yield the service that a fault happens to."""
    if where != "sqlite":
        with rig(options, replica=where == "replica") as served:
            yield served
        return
    usual = argparse.Namespace(**vars(options) | {"serve_mode": None})  # The loop needs PostgreSQL.
    with small_disk() as file, rig(usual, sqlite=file) as served:
        yield served


def run(fault: Fault, served: Rig, rate: float) -> Result:
    """Cause a fault under load, and see what became of the requests."""
    client = served.client()
    with loaded(client, Phase(float("inf"), rate, MOST)) as load:
        wait(BEFORE)
        moments = fault.cause(served, client)
        wait(AFTER)
    record = load.result()
    findings = served.shop.check(served.database)
    return Result(moments, record, findings, recovery_seconds(record, moments.end))


def cut_off(result: Result) -> int:
    """Count the requests that were under way when the fault began and got no answer."""
    return sum(
        row.due <= result.moments.begin < row.due + row.took and row.outcome in NOT_ANSWERED
        for row in result.record
    )


def slowest_refusal(result: Result) -> float:
    """Return the seconds that the slowest failure took while the fault lasted."""
    during = result.record.between(*result.moments)
    return max((row.took for row in during if not succeeded(row.outcome)), default=0.0)


def goals(fault: Fault, result: Result) -> dict[str, bool]:
    """Return what must hold."""
    wanted = {
        "no acknowledged write lost or doubled": not result.findings.lost and not result.findings.doubled,
        "no other 5xx than 503 with Retry-After": not result.record.errors(),
        f"recovered within {RECOVERED:g} s": result.recovered is not None and result.recovered <= RECOVERED,
    }
    if fault.invisible:
        wanted["no request failed"] = not result.record.kinds()
    if fault.refuses:
        wanted[f"refused within {REFUSAL:g} s"] = slowest_refusal(result) <= REFUSAL
        wanted["nothing failed otherwise than by 503"] = not set(result.record.kinds()) - {
            "503 with Retry-After"
        }
    if fault.cause is terminate:
        wanted["what was under way was answered"] = not cut_off(result)
    return {f"{fault.name}: {goal}": reached for goal, reached in wanted.items()}


HEADER = (
    f"{'':34}{'tried':>8}{'failed':>8}{'cut off':>8}{'slowest':>9}{'recovered':>11}"
    f"{'written':>8}{'lost':>6}{'doubled':>9}"
)


def show(fault: Fault, result: Result) -> None:
    """Print a row of the table, and what was lost, if anything."""
    record, findings = result.record, result.findings
    recovered = "never" if result.recovered is None else f"{result.recovered:.2f}"
    print(
        f"{fault.name:34}{len(record):>8,}{len(record) - record.good():>8,}{cut_off(result):>8,}"
        f"{slowest_refusal(result):>9.2f}{recovered:>11}{findings.acknowledged:>8,}{len(findings.lost):>6}"
        f"{len(findings.doubled):>9}  {report(record.kinds())}",
        flush=True,
    )
    for one in sorted(findings.lost | findings.doubled)[:10]:
        print(f"    {one}")


def main(options: argparse.Namespace) -> None:
    """Cause each fault, and print."""
    reached: dict[str, bool] = {}
    wanted = [FAULTS[name] for name in options.only]
    print("Cut off: under way when the fault began, and without an answer. Slowest: seconds of the slowest")
    print("failure while the fault lasted. Recovered: seconds from its end to the last failure.")
    for where in dict.fromkeys(fault.where for fault in wanted):
        if where == "sqlite" and os.getuid() != 0:
            print("Left out: the full disk. Only root may mount the small file system that it takes.")
            continue
        with place(where, options) as served:
            rate = options.share * served.capacity(options)
            print(f"Each fault at {rate:,.0f} requests a second, {where}:")
            print(HEADER, flush=True)
            known = NOTHING
            for fault in (one for one in wanted if one.where == where):
                result = run(fault, served, rate)
                known, new = result.findings, result.findings.since(known)
                result = result._replace(findings=new)
                show(fault, result)
                reached |= goals(fault, result)
    if not reached:
        sys.exit("Nothing was tried.")
    conclude(reached)


if __name__ == "__main__":
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=list(FAULTS), metavar="FAULT")
    parser.add_argument("--share", type=float, default=0.5, help="Of the capacity.")
    main(arguments(parser))
