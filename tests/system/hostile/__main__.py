"""Attacks a live service, and counts: answers of 5xx, connections that hang, log lines with a key in them.

    python -m tests.system.hostile --requests 100000
    SERVE_MODE=threads python -m tests.system.hostile

Starts a service with two workers on a PostgreSQL (DATABASE_URL, or a local one) and a Redis of its own;
variables of the environment reach it. Exit status 1 if anything was counted.
"""

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests import environment
from tests.support import servers
from tests.support.live import live_service
from tests.system.hostile.report import attack, report


def main(options: argparse.Namespace) -> int:
    """Attack; print what was found."""
    url = servers.postgresql()
    if url is None:
        print("No PostgreSQL answers. Start one, or set DATABASE_URL.")
        return 1
    mode = os.environ.get("SERVE_MODE", "")
    os.environ |= environment.FIXED | {"DATABASE_URL": url, "SERVE_MODE": mode}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(servers.redis_server(folder))
        service = stack.enter_context(live_service(folder, workers=2, REDIS_URL=redis.url))
        service.manage("seed_demo", "--pets", "50")
        key = service.roomy_key("Hostile")
        began = time.monotonic()
        findings = attack(service, key, options.requests, options.seed, options.slow)
        lines, bad = report(findings, service.log(), time.monotonic() - began)
        print("\n".join(lines))
    return int(bad)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="Another one makes other requests.")
    parser.add_argument(
        "--slow", type=int, default=64, help="Slow clients that hold connections meanwhile."
    )
    sys.exit(main(parser.parse_args()))
