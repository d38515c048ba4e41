"""Offers four times the capacity of the service for a minute, and a fourth of it before and after.

    python -m tests.load.overload [--seconds 60] [--rounds 3] [--proxy] [--serve-mode loop]

PostgreSQL, Redis and `manage.py serve` with two workers are its own. The client has a core of its own, so
that a higher load takes nothing from the service; on a single core, it prints a note. With `--proxy` the
deployed HAProxy, without TLS, shares that core, as if it had a machine of its own. Clients without a
response wait; at most --waiting of them do at once, and requests beyond that count as not sent.

The machine's own speed drifts by a fourth within minutes. So the peak throughput is measured before and
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
from tests.load.record import Record, finished_a_second, recovery_seconds, settled_seconds
from tests.load.rig import MOST, Rig, arguments, at_least, conclude, make_parser, report, rig
from tests.support.servers import free_port
from tests.system.operations import proxy

NORMAL = 10  # Seconds before and after, at the usual load:
USUAL = 0.25  # Share of the peak. Sparse requests cost twice as much as dense ones.
FIRST = 2  # Seconds in which the queue fills; throughput counts afterwards.
KEPT = 0.9
RECOVERED = 2.0  # Seconds.
SLOW = 5  # Multiple of the usual p99 that counts as not yet recovered.
SLOWEST = 0.5  # Seconds: the absolute limit of the same.


def split_cores() -> set[int]:
    """Leave all cores but one to processes started from now on; the client's own core, or nothing."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("There is one core: the client takes from the service what it needs to offer more.")
        return set()
    os.sched_setaffinity(0, cores[:-1])
    return {cores[-1]}


@contextmanager
def behind_proxy(served: Rig) -> Iterator[None]:
    """Route clients through HAProxy to the service as one instance; the other is down."""
    port = free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        proxy.haproxy(Path(folder), served.port, free_port(), port, proxy.IN_THE_CLEAR | proxy.ONE_ADDRESS),
    ):
        served.port = port
        yield


def line(label: str, record: Record, offered: float) -> None:
    p50, p99, most = record.milliseconds(0.5, 0.99, 1)
    print(
        f"{label:12}{offered:>12,.0f}{len(record):>10,}{record.good():>10,}{p50:>9.1f}{p99:>9.1f}{most:>9.1f}"
        f"  {report(record.kinds())}"
    )


def print_phases(record: Record, seconds: float) -> None:
    end = NORMAL + seconds
    print(f"{'':12}{'offered /s':>12}{'requests':>10}{'good':>10}{'p50 ms':>9}{'p99 ms':>9}{'most ms':>9}")
    for label, due, length in (
        ("before", record.between(0, NORMAL), NORMAL),
        ("too much", record.between(NORMAL, end), seconds),
        ("after", record.between(end, float("inf")), NORMAL),
    ):
        line(label, due, len(due) / length)


class Round(NamedTuple):
    """An overload, with the throughput of the closed loops just before and after it."""

    earlier: list[float]
    record: Record
    later: list[float]


def offer(served: Rig, options: argparse.Namespace, earlier: list[float]) -> Round:
    """Offer the usual load, the overload, and the usual load again; then measure the peak again."""
    usual, more = max(earlier) * USUAL, max(earlier) * options.times
    client = served.client(patience=options.patience)
    record = client.run(
        [
            Phase(NORMAL, usual, MOST),
            Phase(options.seconds, more, options.waiting),
            Phase(NORMAL, usual, options.waiting + MOST),
        ]
    )
    print(f"The client took {client.core_seconds / client.seconds:.0%} of a core.")
    print_phases(record, options.seconds)
    return Round(earlier, record, served.throughputs(options))


class Finding(NamedTuple):
    """The results of a round."""

    kept: float  # Of the peak.
    failed: float  # Seconds after the overload when the last failed request was due.
    settled: float  # Seconds after the overload until all requests succeeded for a second.
    errors: int
    failed_before: int


def examine(done: Round, seconds: float) -> Finding:
    begin, end = NORMAL, NORMAL + seconds
    before = done.record.between(0, begin)
    # By the best number of connections over both sides: either may have had the faster machine.
    peak = max(map(statistics.mean, zip(done.earlier, done.later, strict=True)))
    answered = finished_a_second(done.record, begin + FIRST, end)
    slow = min(max(SLOW * before.milliseconds(0.99)[0] / 1000, 0.1), SLOWEST)
    failed = recovery_seconds(done.record, end)
    settled = settled_seconds(done.record, end, slow)
    found = Finding(
        kept=answered / peak,
        failed=float("inf") if failed is None else failed,
        settled=float("inf") if settled is None else settled,
        errors=done.record.errors(),
        failed_before=sum(before.kinds().values()),
    )
    print(f"Overloaded, {answered:,.0f} a second were answered well, {found.kept:.0%} of {peak:,.0f}.")
    print(
        f"{found.settled:.2f} s after the offer fell, a second began in which all succeeded within "
        f"{slow:.1f} s; the last failure was {found.failed:.2f} s after."
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
        throughputs = served.throughputs(options)
        for _ in range(options.rounds):
            done = offer(served, options, throughputs)
            throughputs = done.later
            found.append(examine(done, options.seconds))
        journal = served.shop.check(served.database)
    kept = statistics.median(one.kept for one in found)
    print(f"Kept {', '.join(f'{one.kept:.0%}' for one in found)} of the peak, {kept:.0%} by the median.")
    print(journal.sentence())
    conclude(
        {
            f"at least {KEPT:.0%} of the peak throughput": kept >= KEPT,
            "no other 5xx than 503 with Retry-After": not any(one.errors for one in found),
            "nothing failed before": not any(one.failed_before for one in found),
            f"nothing failed {RECOVERED:g} s after": all(one.failed <= RECOVERED for one in found),
            f"all was well within {RECOVERED:g} s after": all(one.settled <= RECOVERED for one in found),
            "no acknowledged write lost or doubled": not journal.lost and not journal.doubled,
        }
    )


if __name__ == "__main__":
    parser = make_parser(__doc__)
    parser.add_argument("--seconds", type=at_least(2.0 * FIRST, "throughput"), default=60)
    parser.add_argument("--rounds", type=at_least(1, "anything"), default=3)
    parser.add_argument("--proxy", action="store_true", help="Put HAProxy before the service.")
    parser.add_argument("--times", type=float, default=4, help="The offer, in peaks.")
    parser.add_argument("--waiting", type=int, default=4_000, help="Clients that wait at once.")
    parser.add_argument("--patience", type=float, default=10, help="Seconds until a client gives up.")
    parser.set_defaults(capacity_seconds=30)
    main(arguments(parser))
