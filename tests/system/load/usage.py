"""What one write of the usage of many active keys costs: CPU seconds of the worker and of PostgreSQL.

    python -m tests.system.load.usage [--keys 10000] [--minutes 1]

Uses a database of its own, on the PostgreSQL server of DATABASE_URL or in an SQLite file. Each key has an
account of its own and sends one request between two writes, which Redis has counted. After a first write
of new rows come those of whole minutes, whose mean is printed; each has one write that notes last uses.
PostgreSQL's CPU is that of the connection's own process, and known only where that runs on this machine.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests import environment
from tests.support.live import own_database
from tests.system.load.requests import cpu_seconds

if TYPE_CHECKING:
    from accounts.caller import Caller
    from accounts.usage.write_behind import UsageRecorder

WRITE_EVERY = 5  # Seconds, as accounts/usage does.


def fill(keys: int) -> "list[Caller]":
    """Make as many accounts, with a key each."""
    from accounts.caller import Caller
    from tests.support.many_keys import many_keys

    made = many_keys(keys)
    return [Caller(key.account_id, key.pk, key.public_id, frozenset()) for key in made]


def gather(recorder: "UsageRecorder", callers: "list[Caller]", now: int) -> None:
    """Count one request of each."""
    from accounts.limits import DAY, Limits, Verdict, account_windows

    windows = account_windows(
        Limits(60, 1_000), minute_ends=now + 1, minute_used=1, day=now // DAY, day_used=1, now=now
    )
    for caller in callers:
        recorder.count(caller, Verdict(True, windows, now, 0), elsewhere=True)


def server_processes() -> list[int]:
    """Return the process at the other end of the connection, or nothing if it runs elsewhere."""
    from django.db import connection

    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (process,) = cursor.fetchone()
    status = Path(f"/proc/{process}/comm")
    return [process] if status.exists() and status.read_text().startswith("postgres") else []


def measure(keys: int, minutes: int) -> None:
    """Write, and print what each write took; at the end the means of all but the first."""
    from django.db import connection

    from accounts.limits import MINUTE, SECOND
    from accounts.models import DailyUsage
    from accounts.usage.write_behind import UsageRecorder

    callers, recorder = fill(keys), UsageRecorder()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    server_process = server_processes()
    now = time.time_ns() // 1000 // MINUTE * MINUTE
    print(f"{keys:,} keys on {connection.vendor}; seconds")
    print(f"{'':16}{'wall':>8}{'worker CPU':>12}{'server CPU':>12}")
    found = []
    writes = 1 + minutes * 60 // WRITE_EVERY
    for number in range(writes):
        gather(recorder, callers, now + number * WRITE_EVERY * SECOND)
        wall, worker, server = time.perf_counter(), time.process_time(), cpu_seconds(server_process)
        recorder.write()
        took = (
            time.perf_counter() - wall,
            time.process_time() - worker,
            cpu_seconds(server_process) - server,
        )
        found.append(took)
        print(f"{'write ' + str(number + 1):16}" + "{:8.2f}{:12.3f}{:12.2f}".format(*took), flush=True)
    assert sum(DailyUsage.objects.values_list("requests", flat=True)) == keys * writes
    _, worker, server = (statistics.fmean(column) for column in zip(*found[1:], strict=True))
    print(
        f"Later writes, mean: {worker:.3f} s of the worker and {server:.2f} s of PostgreSQL each "
        f"{WRITE_EVERY} s, {worker / WRITE_EVERY:.1%} and {server / WRITE_EVERY:.1%} of a core."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--minutes", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, own_database(Path(folder)) as url:
        os.environ |= environment.FIXED | {"DATABASE_URL": url}
        os.environ["DJANGO_SETTINGS_MODULE"] = "petstore.settings"
        import django
        from django.core.management import call_command
        from django.db import connections

        django.setup()
        call_command("migrate", verbosity=0)
        measure(options.keys, options.minutes)
        connections.close_all()
