"""Repeatedly breaks the service's connections to PostgreSQL, and checks every response.

    python -m tests.chaos --seconds 600
    python -m tests.chaos --seed 17 --serve-mode threads

A proxy closes connections (when accepted, after the handshake, at a random byte), resets, delays, freezes
and drops them. At the same time, eight accounts send requests, and staff revoke keys and lift bans. A seed
determines the faults and their order. The exit status is 1 if a response or the final state is wrong.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests import environment
from tests.chaos.faults import FaultKind
from tests.chaos.report import report
from tests.chaos.run import run
from tests.run import postgresql
from tests.support.migrated import migrated_database


def main(options: argparse.Namespace) -> int:
    print(f"Seed {options.seed}.", flush=True)
    settings = dict(pair.split("=", 1) for pair in options.set) | {"SERVE_MODE": options.serve_mode}
    with ExitStack() as stack:
        url = stack.enter_context(postgresql())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="petstore-chaos-")))
        if url is None:
            print("No PostgreSQL server found. Install PostgreSQL, or set DATABASE_URL.")
            return 1
        os.environ |= environment.FIXED | {"DATABASE_URL": url}
        chaos = run(
            folder, migrated_database(), seed=options.seed, seconds=options.seconds, kinds=options.kinds,
            log=partial(print, flush=True), **settings,
        )  # fmt: skip
        outcome = asyncio.run(chaos)
        if options.log:
            options.log.write_bytes((folder / "serve.log").read_bytes())
    print("\n".join(report(outcome)))
    return int(bool(outcome.violations))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Terminated by SIGTERM."))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="The approximate duration.")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--serve-mode", choices=("loop", "threads"), default="loop")
    parser.add_argument(
        "--kinds", nargs="+", type=FaultKind, choices=list(FaultKind), default=list(FaultKind)
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="A setting.")
    parser.add_argument("--log", type=Path, help="Where to save the service's log.")
    sys.exit(main(parser.parse_args()))
