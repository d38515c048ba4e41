"""An upgrade under load: a new version replaces the old one, with a migration.

    python -m tests.system.operations.upgrade [--drain 5] [--mode loop|threads]

Version N is the checked-out commit; N+1 is a copy of it with one more column and index on pets, which its
code uses. Both run from separate folders, on a temporary PostgreSQL, behind HAProxy with the
deployed configuration, except TLS. In turn: migrate, replace one instance, replace the other. Exit status 1
if a request failed, or if an acknowledged write is missing afterwards; 2 if a program is missing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests import environment
from tests.support.live import ROOT, Service
from tests.support.postgresql import postgresql_server, programs
from tests.support.servers import free_port
from tests.system.operations import proxy
from tests.system.operations.machines import Customers, add_and_order, check_orders

PETS, CUSTOMERS = 20_000, 20
QUIET_SECONDS = 2  # Of load before, between and after the steps.
NEW_COLUMN = "    nickname = models.TextField(null=True)\n"
NEW_INDEX = '            models.Index(fields=["nickname"], name="pet_by_nickname"),\n'
MIGRATIONS = {
    "nickname": """
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inventory", "{last}")]
    operations = [migrations.AddField("pet", "nickname", models.TextField(null=True))]
""",
    "pet_by_nickname": """
from django.db import migrations, models

from petstore.db.operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # CREATE INDEX CONCURRENTLY can't run in a transaction.
    dependencies = [("inventory", "{last}")]
    operations = [AddIndexConcurrently("pet", models.Index(fields=["nickname"], name="pet_by_nickname"))]
""",
}


def check_out(to: Path) -> None:
    """Write only the files of the checked-out commit."""
    done = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True)
    to.mkdir()
    subprocess.run(["tar", "-x", "-C", str(to)], input=done.stdout, check=True)


def make_next(version: Path, to: Path) -> None:
    """Copy a version, and add a column and an index that it does not have."""
    leave = shutil.ignore_patterns(".*", "__pycache__", "var", "node_modules", "*.sqlite3*")
    shutil.copytree(version, to, ignore=leave)
    models = to / "inventory/models/pets.py"
    before, separator, after = models.read_text().partition("class Pet(models.Model):")
    assert separator, "inventory/models/pets.py has no class Pet: update this script."
    after = after.replace("\n    objects =", f"{NEW_COLUMN}\n    objects =", 1)
    after = after.replace("        indexes = [\n", f"        indexes = [\n{NEW_INDEX}", 1)
    models.write_text(before + separator + after)
    migrations = to / "inventory/migrations"
    last = max(file.stem for file in migrations.glob("0*.py"))
    for name, text in MIGRATIONS.items():
        before, last = last, f"{int(last[:4]) + 1:04}_{name}"
        (migrations / f"{last}.py").write_text(text.format(last=before))


def manage(version: Path, settings: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=version, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def upgrade(options: argparse.Namespace, stack: ExitStack) -> bool:
    """Run the upgrade, print the results, and report whether nothing was lost."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="petstore-upgrade-")))
    database = stack.enter_context(postgresql_server()).url
    port = free_port()
    settings = os.environ | environment.FIXED | {
        "DATABASE_URL": database, "BASE_URL": f"http://127.0.0.1:{port}/v1",
        "TRUSTED_PROXY_COUNT": "1", "DRAIN_SECONDS": str(options.drain), "SERVE_MODE": options.mode,
    }  # fmt: skip
    old, new = folder / "old", folder / "new"
    check_out(old)
    make_next(old, new)
    manage(old, settings, "manage.py", "migrate", "--verbosity", "0")
    manage(new, settings, "manage.py", "makemigrations", "--check", "--dry-run")
    manage(new, settings, "-m", "tests.migration_safety")
    keys = folder / "keys"
    sizes = ("--pets", str(PETS), "--keys", "1", "--keys-out", str(keys))
    manage(old, settings, "-m", "tests.load.fill", *sizes)
    a, b = free_port(), free_port()
    instances = [Service(settings | {"PORT": str(each)}, folder / str(each)) for each in (a, b)]
    for instance in instances:
        instance.folder.mkdir()
        instance.root = old
        stack.callback(instance.stop)
        instance.start(2)
    stack.enter_context(proxy.haproxy(folder, a, b, port, proxy.NO_CLIENT_LIMITS))

    began = time.monotonic()

    def step(name: str) -> None:
        time.sleep(QUIET_SECONDS)
        print(f"{time.monotonic() - began:5.1f} s  {name}", flush=True)

    key = keys.read_text().split()[0]
    with Customers(CUSTOMERS, f"http://127.0.0.1:{port}", key, add_and_order) as load:
        step("Migrate")
        manage(new, settings, "manage.py", "migrate", "--verbosity", "0")
        for name, instance in zip("ab", instances, strict=True):
            step(f"Replace instance {name}")
            status = instance.stop()
            assert status == 0, f"It ended with {status}: see {instance.folder}"
            instance.root = new
            instance.start(2)
        step("Both instances are new")
        step("End")
    print(f"\n{dict(load.statuses())}")
    if is_complete := load.statuses().keys() == {201}:
        check_orders(load, database)
    else:
        for instance in instances:
            print(instance.log()[-2000:])
    return is_complete


def main(options: argparse.Namespace) -> int:
    """Check the requirements, and upgrade."""
    needed = {"HAProxy": proxy.program(), "PostgreSQL's programs": programs()}
    if missing := [name for name, found in needed.items() if not found]:
        print(f"SKIPPED: {' and '.join(missing)} not found on this machine.")
        return 2
    with ExitStack() as stack:
        return int(not upgrade(options, stack))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--drain", type=int, default=5, help="DRAIN_SECONDS of both versions.")
    parser.add_argument("--mode", choices=("loop", "threads"), default="loop", help="SERVE_MODE of both.")
    sys.exit(main(parser.parse_args()))
