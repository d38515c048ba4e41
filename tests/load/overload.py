"""Offers four times the peak throughput of the service for a minute, and a fourth of it before and after.

    python -m tests.load.overload [--seconds 60] [--rounds 3] [--proxy] [--serve-mode loop]

PostgreSQL and `manage.py serve` with two workers are its own. The client has a core of its own, so
a higher load takes no CPU from the service; on a single core, it prints a note. With `--proxy` the
deployed HAProxy, without TLS, shares that core, as if it had a machine of its own. At most --waiting
clients wait for a response at once; requests beyond that count as not sent.

The speed of the machine drifts by a fourth within minutes. So the peak throughput is measured before and
after each overload, and the median of the rounds counts. Exit status 1 if a goal was missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.load.client import Phase
from tests.load.record import Record, recovery_seconds, settled_seconds, throughput
from tests.load.rig import (
    MAX_CONNECTIONS,
    Rig,
    at_least,
    conclude,
    format_failures,
    make_parser,
    parse_arguments,
    rig,
)
from tests.support.servers import free_port
from tests.system.operations import proxy

NORMAL_SECONDS = 10  # Before and after the overload.
NORMAL_LOAD = 0.25  # Of the peak. Sparse requests cost twice as much as dense ones.
OVERLOAD = 4  # Of the peak.
QUEUE_SECONDS = 2  # In which the queue fills; throughput counts afterwards.
MIN_KEPT = 0.9  # Of the peak.
MAX_RECOVERY_SECONDS = 2.0
SLOW_FACTOR = 5  # Of the normal p99: slower responses show that the service has not recovered.
MAX_SLOW_SECONDS = 0.5  # The upper limit of the same.


def split_cores() -> set[int]:
    """Leave all cores but one to processes started from now on; returns the client's core, if any."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("There is only one core: the client competes with the service for it.")
        return set()
    os.sched_setaffinity(0, cores[:-1])
    return {cores[-1]}


@contextmanager
def behind_proxy(served: Rig) -> Iterator[None]:
    """Route clients through HAProxy to the service as one instance; the other is down."""
    port = free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        proxy.haproxy(
            Path(folder), served.port, free_port(), port, proxy.WITHOUT_TLS | proxy.NO_CLIENT_LIMITS
        ),
    ):
        served.port = port
        yield


def print_phases(record: Record, seconds: float) -> None:
    end = NORMAL_SECONDS + seconds
    print(f"{'':12}{'offered /s':>12}{'requests':>10}{'good':>10}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}")
    for label, due, length in (
        ("before", record.between(0, NORMAL_SECONDS), NORMAL_SECONDS),
        ("overload", record.between(NORMAL_SECONDS, end), seconds),
        ("after", record.between(end, float("inf")), NORMAL_SECONDS),
    ):
        p50, p99, slowest = due.milliseconds(0.5, 0.99, 1)
        print(
            f"{label:12}{len(due) / length:>12,.0f}{len(due):>10,}{due.good():>10,}"
            f"{p50:>9.1f}{p99:>9.1f}{slowest:>9.1f}  {format_failures(due)}"
        )


def run_load(served: Rig, options: argparse.Namespace, peak: float) -> Record:
    """Offer the normal load, the overload, and the normal load again."""
    client = served.client()
    record = client.run(
        [
            Phase(NORMAL_SECONDS, peak * NORMAL_LOAD, MAX_CONNECTIONS),
            Phase(options.seconds, peak * OVERLOAD, options.waiting),
            Phase(NORMAL_SECONDS, peak * NORMAL_LOAD, options.waiting + MAX_CONNECTIONS),
        ]
    )
    print(f"The client took {client.cpu_seconds / client.seconds:.0%} of a core.")
    print_phases(record, options.seconds)
    return record


class Finding(NamedTuple):
    """The results of a round."""

    kept: float  # Of the peak.
    failed: float  # Seconds after the overload when the last failed request was due.
    settled: float  # Seconds after the overload until all requests succeeded for a second.
    errors: int
    failed_before: int


def examine(record: Record, peak: float, seconds: float) -> Finding:
    start, end = NORMAL_SECONDS, NORMAL_SECONDS + seconds
    before = record.between(0, start)
    served = throughput(record, start + QUEUE_SECONDS, end)
    slow = min(max(SLOW_FACTOR * before.milliseconds(0.99)[0] / 1000, 0.1), MAX_SLOW_SECONDS)
    failed = recovery_seconds(record, end)
    settled = settled_seconds(record, end, slow)
    found = Finding(
        kept=served / peak,
        failed=float("inf") if failed is None else failed,
        settled=float("inf") if settled is None else settled,
        errors=record.errors(),
        failed_before=before.failures().total(),
    )
    print(f"Throughput under overload: {served:,.0f} a second, {found.kept:.0%} of the peak {peak:,.0f}.")
    print(
        f"{found.settled:.2f} s after the overload, a second started in which all succeeded within "
        f"{slow:.1f} s; the last failed request was due {found.failed:.2f} s after it."
    )
    return found


def main(options: argparse.Namespace) -> None:
    own = split_cores()
    with ExitStack() as stack:
        served = stack.enter_context(rig(options))
        if own:
            os.sched_setaffinity(0, own)  # The running service keeps the other cores.
        if options.proxy:
            stack.enter_context(behind_proxy(served))
        found = []
        earlier = served.throughputs(options)
        for _ in range(options.rounds):
            record = run_load(served, options, max(earlier))
            later = served.throughputs(options)
            # By the best number of connections over both sides: either may have had the faster machine.
            peak = max(map(statistics.mean, zip(earlier, later, strict=True)))
            found.append(examine(record, peak, options.seconds))
            earlier = later
        journal = served.shop.check(served.database)
    kept = statistics.median(one.kept for one in found)
    print(f"Kept {', '.join(f'{one.kept:.0%}' for one in found)} of the peak; the median is {kept:.0%}.")
    print(journal.sentence())
    limit = MAX_RECOVERY_SECONDS
    conclude(
        {
            f"at least {MIN_KEPT:.0%} of the peak throughput": kept >= MIN_KEPT,
            "no other 5xx than 503 with Retry-After": not any(one.errors for one in found),
            "no failures before the overload": not any(one.failed_before for one in found),
            f"no failures later than {limit:g} s after it": all(one.failed <= limit for one in found),
            f"recovered within {limit:g} s": all(one.settled <= limit for one in found),
            "no acknowledged write lost or doubled": not journal.lost and not journal.doubled,
        }
    )


if __name__ == "__main__":
    parser = make_parser(__doc__)
    parser.add_argument("--seconds", type=at_least(2.0 * QUEUE_SECONDS, "throughput"), default=60)
    parser.add_argument("--rounds", type=at_least(1, "anything"), default=3)
    parser.add_argument("--proxy", action="store_true", help="Put HAProxy in front of the service.")
    parser.add_argument("--waiting", type=int, default=4_000, help="Maximum of clients that wait at once.")
    parser.set_defaults(capacity_seconds=30)
    main(parse_arguments(parser))
