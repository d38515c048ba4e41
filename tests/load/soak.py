"""Serves a mixed load at 70 % of its capacity for ten minutes, and monitors the service's resources.

    python -m tests.load.soak [--minutes 10] [--serve-mode loop]

PostgreSQL, Redis and `manage.py serve` with two workers are its own. The capacity is the highest steady
rate that is served in time. Exit status 1 if a response was not 2xx, if an acknowledged write is missing
from the database, or if memory, files or connections grew after the first minute.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import Future
from itertools import pairwise

from tests.load.client import Client, Phase
from tests.load.record import Record, growth
from tests.load.rig import (
    MOST,
    Rig,
    Sample,
    arguments,
    at_least,
    conclude,
    loaded,
    make_parser,
    report,
    rig,
    sample,
)
from tests.load.shop import OPERATIONS

EVERY = 5  # Seconds between samples of the processes.
LEAST = 0.5  # Minutes: growth needs a few samples.
CROWD = Phase(5, None, MOST)  # Allocates the memory of maximum concurrency at the start.
CALM = 5  # Seconds after it in which the queue is served.
BEFORE = CROWD.seconds + CALM
WARM = 60  # Seconds in which memory may still grow.
MORE_MEMORY = 0.02
MORE_FILES = 3  # Or connections: a leak of one per minute would be six.


def watch(rig: Rig, client: Client, load: Future[Record]) -> list[Sample]:
    begin = time.monotonic()
    samples = []
    while not load.done():
        samples.append(sample(rig, time.monotonic() - begin, len(client.all)))
        next_look = begin + EVERY * len(samples)
        while not load.done() and time.monotonic() < next_look:
            time.sleep(0.1)
    return samples


def settled(samples: list[Sample], seconds: float) -> list[Sample]:
    """The samples after the first minute; of a short run, those of its second half."""
    return [one for one in samples if min(WARM, seconds / 2) <= one.second < seconds]


def print_latencies(record: Record) -> None:
    print(f"{'':10}{'requests':>10}{'p50 ms':>9}{'p99 ms':>9}{'p99.9 ms':>10}{'most ms':>9}")
    for name in ("all", *OPERATIONS):
        rows = record if name == "all" else record.of(OPERATIONS.index(name))
        p50, p99, p999, most = rows.milliseconds(0.5, 0.99, 0.999, 1)
        print(f"{name:10}{len(rows):>10,}{p50:>9.1f}{p99:>9.1f}{p999:>10.1f}{most:>9.1f}")


def print_samples(samples: list[Sample], record: Record) -> None:
    """Print the service's resources, about once a minute, and its responses until the next time."""
    print(f"{'second':>8}{'MiB':>9}{'files':>8}{'PostgreSQL':>12}{'p50 ms':>9}{'p99 ms':>9}{'most ms':>9}")
    shown = samples[:: max(1, len(samples) // 11)]
    for one, following in pairwise([*shown, samples[-1]]):
        p50, p99, most = record.between(one.second, following.second).milliseconds(0.5, 0.99, 1)
        held = f"{one.second:>8.0f}{one.mib:>9.1f}{one.files:>8}{one.connections:>12}"
        print(f"{held}{p50:>9.1f}{p99:>9.1f}{most:>9.1f}")


def main(options: argparse.Namespace) -> None:
    seconds = 60 * options.minutes
    with rig(options) as served:
        rate = options.share * served.sustained(options)
        print(f"Offering {rate:,.0f} requests a second for {options.minutes:g} minutes.", flush=True)
        client = served.client()
        with loaded(client, CROWD, Phase(CALM, rate, 2 * MOST), Phase(seconds, rate, MOST)) as load:
            samples = watch(served, client, load)
        record = load.result().between(BEFORE, float("inf"))
        findings = served.shop.check(served.database)
    later = settled(samples, BEFORE + seconds)
    memory = growth([one.mib for one in later]) / later[0].mib
    files = growth([one.files for one in later])
    connections = growth([one.connections for one in later])
    print_latencies(record)
    print_samples(samples, record)
    print(
        "After the first minute, the last third held more than the first by: "
        f"memory {memory:+.1%}, files {files:+.0f}, connections {connections:+.0f}"
    )
    print(f"Failures: {report(record.kinds())}")
    print(findings.sentence())
    print(f"The client took {client.core_seconds / client.seconds:.0%} of a core.")
    conclude(
        {
            "no answer of 5xx": not record.errors() and "503 with Retry-After" not in record.kinds(),
            "every request succeeded": record.good() == len(record),
            "no acknowledged write lost or doubled": not findings.lost and not findings.doubled,
            f"memory grew by less than {MORE_MEMORY:.0%}": memory < MORE_MEMORY,
            f"files grew by less than {MORE_FILES}": files < MORE_FILES,
            f"connections to PostgreSQL grew by less than {MORE_FILES}": connections < MORE_FILES,
        }
    )


if __name__ == "__main__":
    parser = make_parser(__doc__)
    parser.add_argument("--minutes", type=at_least(LEAST, "growth"), default=10)
    parser.add_argument("--share", type=float, default=0.7, help="Of the capacity.")
    main(arguments(parser))
