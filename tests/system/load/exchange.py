"""What importing and exporting many pets costs: rows a second, and the most memory it took.

    python -m tests.system.load.exchange [ROWS]

Uses a database of its own, on the PostgreSQL server of DATABASE_URL or in an SQLite file. Each figure is
that of a whole command, its start included; its memory is the peak of its process.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import environment
from tests.support.live import ROOT, own_database

CATEGORIES = ("Dogs", "Cats", "Birds", "Fish", "Rabbits")
STATUSES = ("available", "available", "pending", "sold")


def write(file: Path, rows: int) -> None:
    """Write the pets, the same ones each time."""
    with file.open("w") as text:
        text.write("name,category,status\n")
        for number in range(rows):
            category = CATEGORIES[number % len(CATEGORIES)]
            text.write(f"Pet number {number},{category},{STATUSES[number % len(STATUSES)]}\n")


def manage(*command: str) -> tuple[float, int]:
    """Run a command; return its seconds and the KiB of its peak."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "manage.py", *command], cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return time.perf_counter() - began, usage.ru_maxrss


def main(rows: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with own_database(folder) as url:
            os.environ |= environment.FIXED | {"DATABASE_URL": url}
            manage("migrate", "--verbosity", "0")
            write(folder / "in.csv", rows)
            runs = {
                "start alone": ("import_pets", os.devnull, "--format", "jsonl"),
                "check CSV (--dry-run)": ("import_pets", f"{folder}/in.csv", "--dry-run"),
                "import CSV": ("import_pets", f"{folder}/in.csv"),
                "export CSV": ("export_pets", f"{folder}/out.csv"),
                "export JSON Lines": ("export_pets", f"{folder}/out.jsonl"),
                "import JSON Lines": ("import_pets", f"{folder}/out.jsonl"),
            }
            print(f"{rows:,} rows on {url.partition(':')[0]}")
            print(f"{'':24}{'s':>8}{'rows/s':>12}{'peak MiB':>10}")
            for label, command in runs.items():
                seconds, peak = manage(*command)
                speed = f"{rows / seconds:,.0f}" if label != "start alone" else ""
                print(f"{label:24}{seconds:8.1f}{speed:>12}{peak / 1024:10.0f}", flush=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:] or ("1000000",)))
