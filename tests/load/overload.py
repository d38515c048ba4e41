"""Offers four times what the service can answer for a minute, then half of it.

    python -m tests.load.overload [--seconds 60] [--proxy] [--serve-mode loop]

PostgreSQL, Redis and `manage.py serve` with two workers are its own. The client has a core of its own, so
that offering more takes nothing from the service; where there is only one, it says so. With `--proxy` the
HAProxy that is deployed, without TLS, shares that core, as if it had a machine of its own. Clients that
find no answer wait; at most so many do at once (--waiting), what comes then is counted as not sent.

The machine's own speed drifts by a fourth within minutes. So the capacity is measured on both sides of the
load, and the best that was seen on either side is what is to be kept. Ends with 1 if a goal was missed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.load.client import Phase
from tests.load.record import Record, disturbed, finished_a_second, recovery_seconds
from tests.load.rig import MOST, Rig, arguments, conclude, make_parser, report, rig
from tests.load.shop import OPERATIONS
from tests.operations import proxy
from tests.servers import free_port

NORMAL = 10  # Seconds at half the capacity, before and after.
FIRST = 2  # Seconds in which the queue fills; throughput counts from then on.
KEPT = 0.9
RECOVERED = 2.0  # Seconds.
SLOW = 5  # Times the usual p99: slower is not recovered yet.


def split_cores() -> set[int]:
    """Leave all cores but one to what is started from now on; return the client's own, or nothing."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("There is one core: the client takes from the service what it needs to offer more.")
        return set()
    os.sched_setaffinity(0, cores[:-1])
    return {cores[-1]}


@contextmanager
def behind_proxy(served: Rig) -> Iterator[None]:
    """Send clients to HAProxy, before the service as one instance; the other is not there."""
    port = free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        proxy.haproxy(Path(folder), served.port, free_port(), port, tls=False),
    ):
        served.port = port
        yield


def line(label: str, record: Record, seconds: float, offered: float) -> None:
    """Print a phase."""
    p50, p99, most = record.milliseconds(0.5, 0.99, 1)
    print(
        f"{label:12}{offered:>12,.0f}{len(record):>10,}{record.good():>10,}{p50:>9.1f}{p99:>9.1f}{most:>9.1f}"
        f"  {report(record.kinds())}"
    )


def main(options: argparse.Namespace) -> None:
    """Load and print."""
    own = split_cores()
    with ExitStack() as stack:
        served = stack.enter_context(rig(options))
        if own:
            os.sched_setaffinity(0, own)  # The service, running, keeps the others.
        if options.proxy:
            stack.enter_context(behind_proxy(served))
        earlier = served.throughputs(options)
        capacity = max(earlier)  # As far as is known when the offer is made.
        half, more = capacity / 2, capacity * options.times
        begin, end = float(NORMAL), float(NORMAL + options.seconds)
        client = served.client(patience=options.patience)
        record = client.run(
            [
                Phase(NORMAL, half, MOST),
                Phase(options.seconds, more, options.waiting),
                Phase(NORMAL, half, options.waiting + MOST),
            ]
        )
        later = served.throughputs(options)
        findings = served.shop.check(served.database)
    before, over = record.between(0, begin), record.between(begin, end)
    after = record.between(end, float("inf"))
    print(f"{'':12}{'offered /s':>12}{'requests':>10}{'good':>10}{'p50 ms':>9}{'p99 ms':>9}{'most ms':>9}")
    line("before", before, NORMAL, half)
    line(f"{options.times:g} x", over, options.seconds, more)
    line("after", after, NORMAL, half)
    peak = max(*earlier, *later)
    kept = finished_a_second(record, begin + FIRST, end) / peak
    usual = before.milliseconds(0.99)[0] / 1000
    slow = max(SLOW * usual, 0.1)
    recovered = recovery_seconds(record, end, slow)
    writes = Record(row for row in over if row.operation in map(OPERATIONS.index, ("create", "place")))
    print(f"Overloaded, {kept:.0%} of {peak:,.0f} were answered well; {writes.good():,} adds and orders.")
    print(f"Recovered {'never' if recovered is None else f'{recovered:.2f} s'} after the offer fell.")
    counts = [
        sum(disturbed(row, slow) for row in after.between(end + second, end + second + 1))
        for second in range(NORMAL)
    ]
    print(f"Failed, or took more than {slow:.1f} s, in each second from then on: {counts}")
    print(f"Acknowledged writes: {findings.acknowledged:,}, lost {len(findings.lost)}.")
    print(f"The client took {client.core_seconds / client.seconds:.0%} of a core.")
    conclude(
        {
            f"at least {KEPT:.0%} of the capacity": kept >= KEPT,
            "no other 5xx than 503 with Retry-After": not record.errors(),
            "nothing failed before": not before.kinds(),
            f"recovered within {RECOVERED:g} s": recovered is not None and recovered <= RECOVERED,
            "no acknowledged write lost or doubled": not findings.lost and not findings.doubled,
        }
    )


if __name__ == "__main__":
    parser = make_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--proxy", action="store_true", help="Put HAProxy before the service.")
    parser.add_argument("--times", type=float, default=4, help="The offer, in capacities.")
    parser.add_argument("--waiting", type=int, default=4_000, help="Clients that wait at once.")
    parser.add_argument("--patience", type=float, default=10, help="Seconds until a client gives up.")
    parser.set_defaults(capacity_seconds=30)
    main(arguments(parser))
