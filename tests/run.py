"""Runs every test on each database: what `make test` calls.

On SQLite always; on PostgreSQL when DATABASE_URL names one or a local one answers. In CI (`CI=true`) it
must be there: a silent skip would be a failure nobody sees.

A process for each core shares the tests. Their order must stay, so that those which empty the database come
last in each: what hands out whole files (`--dist loadfile`) would mix them.
"""

import os
import subprocess
import sys

from tests import servers

SHARED = ["-n", "auto", "--maxprocesses", "4", "--dist", "load"]  # More would want more of PostgreSQL.


def run(name: str, arguments: list[str], **environment: str) -> int:
    """Run pytest once; return its exit status."""
    print(f"\n=== Tests on {name} ===", flush=True)
    command = [sys.executable, "-m", "pytest", *SHARED, *arguments]
    return subprocess.run(command, env=os.environ | environment, check=False).returncode


def main(arguments: list[str]) -> int:
    """Run all; return the first failure's exit status."""
    postgresql = servers.postgresql()
    if postgresql is None and os.environ.get("CI") == "true":
        print("No PostgreSQL answers, and CI must test on one. Start it, or set DATABASE_URL.")
        return 1
    # A browser sees no difference between the databases, so it looks once.
    once = [] if postgresql is None else ["--ignore=tests/browser"]
    failed = run("SQLite", [*once, *arguments], DATABASE_URL="")
    if postgresql is not None:
        return failed or run("PostgreSQL", arguments, DATABASE_URL=postgresql)
    print("SKIPPED: the tests on PostgreSQL. Start one with `docker compose up -d`.")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
