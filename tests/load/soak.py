"""Sends a mixed load at 70 % of the sustainable rate for ten minutes, and monitors the service's resources.

    python -m tests.load.soak [--minutes 10] [--serve-mode loop]

PostgreSQL and `manage.py serve` with two workers are its own. Exit status 1 if a response was not
2xx, if an acknowledged write is missing from the database, or if memory, files or connections grew after
the first minute.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import Future
from itertools import pairwise

from tests.load.client import Client, Phase
from tests.load.record import Record, growth
from tests.load.rig import (
    MAX_CONNECTIONS,
    Rig,
    Sample,
    at_least,
    conclude,
    format_failures,
    loaded,
    make_parser,
    parse_arguments,
    rig,
    sample,
)
from tests.load.shop import OPERATIONS

SHARE = 0.7  # Of the sustainable rate.
SAMPLE_SECONDS = 5  # Between samples of the processes.
MIN_MINUTES = 0.5  # Growth needs a few samples.
BURST = Phase(5, None, MAX_CONNECTIONS)  # Allocates the memory of maximum concurrency at the start.
DRAIN_SECONDS = 5  # After the burst.
SETUP_SECONDS = BURST.seconds + DRAIN_SECONDS
WARM_UP_SECONDS = 60  # In which memory may still grow.
MAX_MEMORY_GROWTH = 0.02
MAX_FILE_GROWTH = 3  # Or connections: a leak of one per minute would be six.


def monitor(rig: Rig, client: Client, load: Future[Record]) -> list[Sample]:
    start = time.monotonic()
    samples = []
    while not load.done():
        samples.append(sample(rig, time.monotonic() - start, len(client.connections)))
        next_sample = start + SAMPLE_SECONDS * len(samples)
        while not load.done() and time.monotonic() < next_sample:
            time.sleep(0.1)
    return samples


def print_latencies(record: Record) -> None:
    print(f"{'':10}{'requests':>10}{'p50 ms':>9}{'p99 ms':>9}{'p99.9 ms':>10}{'max ms':>9}")
    for name in ("all", *OPERATIONS):
        rows = record if name == "all" else record.of(OPERATIONS.index(name))
        p50, p99, p999, slowest = rows.milliseconds(0.5, 0.99, 0.999, 1)
        print(f"{name:10}{len(rows):>10,}{p50:>9.1f}{p99:>9.1f}{p999:>10.1f}{slowest:>9.1f}")


def print_samples(samples: list[Sample], record: Record) -> None:
    """Print the service's resources, about once a minute, and the latencies until the next time."""
    print(f"{'second':>8}{'MiB':>9}{'files':>8}{'PostgreSQL':>12}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}")
    shown = samples[:: max(1, len(samples) // 11)]
    for one, following in pairwise([*shown, samples[-1]]):
        p50, p99, slowest = record.between(one.second, following.second).milliseconds(0.5, 0.99, 1)
        resources = f"{one.second:>8.0f}{one.mib:>9.1f}{one.files:>8}{one.connections:>12}"
        print(f"{resources}{p50:>9.1f}{p99:>9.1f}{slowest:>9.1f}")


def main(options: argparse.Namespace) -> None:
    seconds = 60 * options.minutes
    with rig(options) as served:
        rate = SHARE * served.sustainable_rate(options)
        print(f"Offering {rate:,.0f} requests a second for {options.minutes:g} minutes.", flush=True)
        client = served.client()
        drain = Phase(DRAIN_SECONDS, rate, 2 * MAX_CONNECTIONS)
        with loaded(client, BURST, drain, Phase(seconds, rate, MAX_CONNECTIONS)) as load:
            samples = monitor(served, client, load)
        record = load.result().between(SETUP_SECONDS, float("inf"))
        findings = served.shop.check(served.database)
    end = SETUP_SECONDS + seconds
    warm = [one for one in samples if min(WARM_UP_SECONDS, end / 2) <= one.second < end]
    memory = growth([one.mib for one in warm]) / warm[0].mib
    files = growth([one.files for one in warm])
    connections = growth([one.connections for one in warm])
    print_latencies(record)
    print_samples(samples, record)
    print(
        "Growth from the first to the last third after the first minute: "
        f"memory {memory:+.1%}, files {files:+.0f}, connections {connections:+.0f}"
    )
    print(f"Failures: {format_failures(record)}")
    print(findings.sentence())
    print(f"The client took {client.cpu_seconds / client.seconds:.0%} of a core.")
    conclude(
        {
            "every request succeeded": record.good() == len(record),
            "no acknowledged write lost or doubled": not findings.lost and not findings.doubled,
            f"memory grew by less than {MAX_MEMORY_GROWTH:.0%}": memory < MAX_MEMORY_GROWTH,
            f"files grew by less than {MAX_FILE_GROWTH}": files < MAX_FILE_GROWTH,
            f"connections to PostgreSQL grew by less than {MAX_FILE_GROWTH}": connections < MAX_FILE_GROWTH,
        }
    )


if __name__ == "__main__":
    parser = make_parser(__doc__)
    parser.add_argument("--minutes", type=at_least(MIN_MINUTES, "growth"), default=10)
    main(parse_arguments(parser))
