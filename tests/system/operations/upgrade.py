"""An upgrade at noon: one version replaces the other, with a migration, while customers shop.

    python -m tests.system.operations.upgrade [--rate 200] [--customers 6] [--drain 5] [--mode loop|threads]

Version N is the commit that is checked out; N+1 is a copy of it with one more column and index on pets,
which its code knows. Both run from folders of their own, on a PostgreSQL and a Redis of the script's own,
behind HAProxy with the configuration that is deployed. In turn: migrate, replace one instance, replace the
other. Exit status 1 if a request failed, or if an acknowledged write is not there afterwards; 2 where a
program is missing.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPException, HTTPSConnection
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests import environment
from tests.support.live import ROOT
from tests.support.postgresql import postgresql_server, programs
from tests.support.servers import free_port, redis_server, wait_until
from tests.system.operations import proxy

STOP_SECONDS = 30
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
    atomic = False  # An index that is made beside the writes can't be made in a transaction.
    dependencies = [("inventory", "{last}")]
    operations = [AddIndexConcurrently("pet", models.Index(fields=["nickname"], name="pet_by_nickname"))]
""",
}


def check_out(to: Path) -> None:
    """Write the files of the commit that is checked out, and no others."""
    done = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
        files.extractall(to, filter="data")


def make_next(version: Path, to: Path) -> None:
    """Copy a version, and give the copy a column and an index that the first does not know."""
    leave = shutil.ignore_patterns(".*", "__pycache__", "var", "node_modules", "*.sqlite3*")
    shutil.copytree(version, to, ignore=leave)
    models = to / "inventory/models/pets.py"
    before, separator, after = models.read_text().partition("class Pet(models.Model):")
    assert separator, "inventory/models/pets.py has no Pet any more: teach this script the new place."
    after = after.replace("\n    objects =", f"{NEW_COLUMN}\n    objects =", 1)
    after = after.replace("        indexes = [\n", f"        indexes = [\n{NEW_INDEX}", 1)
    models.write_text(before + separator + after)
    migrations = to / "inventory/migrations"
    last = max(file.stem for file in migrations.glob("0*.py"))
    for name, text in MIGRATIONS.items():
        before, last = last, f"{int(last[:4]) + 1:04}_{name}"
        (migrations / f"{last}.py").write_text(text.format(last=before))


def manage(version: Path, settings: dict[str, str], *arguments: str) -> str:
    """Run a command of a version, and return what it prints."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=version, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


class Instance:
    """One instance of the service: a port, on which one version follows the other."""

    def __init__(self, log: Path, settings: dict[str, str]) -> None:
        self.port = free_port()
        self.log = log
        self.settings = settings | {"PORT": str(self.port)}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, version: Path) -> None:
        """Start a version, and return when it is ready."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "serve", "--workers", "2"],
                cwd=version, env=self.settings, stdout=log, stderr=log,
            )  # fmt: skip
        url = f"http://127.0.0.1:{self.port}/readyz"
        wait_until(lambda: httpx.get(url, timeout=5).raise_for_status())

    def stop(self) -> None:
        """Tell it to end, as an operator does; it must end by itself, and well."""
        if self.process is not None:
            self.process.terminate()
            try:
                status = self.process.wait(STOP_SECONDS)
            finally:
                self.process.kill()
                self.process = None
            assert status == 0, f"It ended with {status}: see {self.log}"


class Journal:
    """What the customers sent, what they were told, and what went wrong."""

    def __init__(self) -> None:
        self.requests = Counter[str]()
        self.failures: list[str] = []
        self.pets: dict[int, str] = {}  # The name of each that was acknowledged.
        self.orders: dict[int, int] = {}  # The pet of each.


class Customer:
    """One customer: a key and a connection."""

    def __init__(self, key: str, port: int, trust: Path, journal: Journal) -> None:
        self.key = key
        self.journal = journal
        self.connection = HTTPSConnection("127.0.0.1", port, timeout=20, context=proxy.trusting(trust))

    def send(self, method: str, path: str, wanted: int, body: Any = None) -> Any:
        """Send a request, and note it; return what is answered, None if that is not what was wanted."""
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        try:
            self.connection.request(method, f"/v1{path}", body and json.dumps(body), headers)
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, HTTPException) as error:
            self.connection.close()
            failure = repr(error)
        else:
            if answer.status == wanted:
                return json.loads(text)
            failure = f"{answer.status} {text[:200]!r}"
        finally:
            self.journal.requests[f"{method} {path.rstrip('0123456789')}"] += 1
        self.journal.failures.append(f"{time.strftime('%X')} {method} {path}: {failure}")
        return None

    def shop(self, pause: float, closed: threading.Event) -> None:
        """Add a pet, order it, look at it and at the list, over and over."""
        pet = 0
        for step in cycle(range(4)):
            if closed.wait(pause):
                break
            if step == 0:
                name = f"{self.key[-6:]} {len(self.journal.pets)}"
                made = self.send("POST", "/pets", 201, {"name": name, "categoryId": 1})
                pet = made["id"] if made else 0
                self.journal.pets |= {pet: name} if made else {}
            elif step == 1 and pet:
                made = self.send("POST", "/store/orders", 201, {"petId": pet})
                self.journal.orders |= {made["id"]: pet} if made else {}
            elif step == 2 and pet:
                self.send("GET", f"/pets/{pet}", 200)
            else:
                self.send("GET", "/pets?limit=20", 200)
        self.connection.close()


@contextmanager
def shopping(customers: list[Customer], rate: float) -> Iterator[None]:
    """Let the customers shop, at so many requests a second in all."""
    closed = threading.Event()
    pause = len(customers) / rate
    threads = [threading.Thread(target=customer.shop, args=(pause, closed)) for customer in customers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        closed.set()
        for thread in threads:
            thread.join()


def lost(url: str, journal: Journal) -> int:
    """Return how many acknowledged writes the database does not have as they were acknowledged."""
    with psycopg.connect(url) as connection:
        pets: dict[int, str] = dict(connection.execute("SELECT id, name FROM inventory_pet"))
        orders: dict[int, int] = dict(connection.execute("SELECT id, pet_id FROM inventory_order"))
    return sum(pets.get(pet) != name for pet, name in journal.pets.items()) + sum(
        orders.get(order) != pet for order, pet in journal.orders.items()
    )


def upgrade(options: argparse.Namespace, stack: ExitStack) -> bool:
    """Do it, and print what came of it; tell whether nothing was lost."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="petstore-upgrade-")))
    database = stack.enter_context(postgresql_server()).url
    redis = stack.enter_context(redis_server(folder)).url
    https_port = free_port()
    settings = os.environ | environment.FIXED | {
        "DATABASE_URL": database, "REDIS_URL": redis, "BASE_URL": f"https://127.0.0.1:{https_port}/v1",
        "TRUSTED_PROXY_COUNT": "1", "DRAIN_SECONDS": str(options.drain), "SERVE_MODE": options.mode,
    }  # fmt: skip
    old, new = folder / "old", folder / "new"
    check_out(old)
    make_next(old, new)
    manage(old, settings, "manage.py", "migrate", "--verbosity", "0")
    manage(new, settings, "manage.py", "makemigrations", "--check", "--dry-run")
    manage(new, settings, "-m", "tests.migration_safety")
    issue = ("issue_key", "--account", "Shop", "--plan", "enterprise", "--json")
    roomy = ("--per-minute", "1000000000", "--per-day", "1000000000")
    key = json.loads(manage(old, settings, "manage.py", *issue, *roomy))["key"]
    instances = [Instance(folder / f"{name}.log", settings) for name in ("a", "b")]
    for instance in instances:
        stack.callback(instance.stop)
        instance.start(old)
    a, b = (instance.port for instance in instances)
    stack.enter_context(proxy.haproxy(folder, a, b, https_port, proxy.ONE_ADDRESS))

    journal, began = Journal(), time.monotonic()

    def step(name: str) -> None:
        time.sleep(QUIET_SECONDS)
        print(f"{time.monotonic() - began:5.1f} s  {name}", flush=True)

    customers = [Customer(key, https_port, folder, journal) for _ in range(options.customers)]
    with shopping(customers, options.rate):
        step("Migrate")
        manage(new, settings, "manage.py", "migrate", "--verbosity", "0")
        for name, instance in zip("ab", instances, strict=True):
            step(f"Replace instance {name}")
            instance.stop()
            instance.start(new)
        step("Both instances are new")
        step("End")
    missing = lost(database, journal)
    total = sum(journal.requests.values())
    print(
        f"\n{total} requests in {time.monotonic() - began:.0f} s: {dict(sorted(journal.requests.items()))}"
    )
    print(f"{len(journal.failures)} failed")
    print(f"{len(journal.pets) + len(journal.orders)} writes acknowledged, {missing} of them lost")
    for failure in journal.failures[:20]:
        print(f"  {failure}")
    if journal.failures:
        for instance in instances:
            print(instance.log.read_text()[-2000:])
    return bool(total) and not journal.failures and not missing


def main(options: argparse.Namespace) -> int:
    """Look for what is needed, and upgrade."""
    needed = {"HAProxy": proxy.program(), "PostgreSQL's programs": programs()}
    if missing := [name for name, found in needed.items() if not found]:
        print(f"SKIPPED: {' and '.join(missing)} can't be found on this machine.")
        return 2
    with ExitStack() as stack:
        return int(not upgrade(options, stack))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=200, help="Requests a second of all customers.")
    parser.add_argument("--customers", type=int, default=6)
    parser.add_argument("--drain", type=int, default=5, help="DRAIN_SECONDS of both versions.")
    parser.add_argument("--mode", choices=("loop", "threads"), default="loop", help="SERVE_MODE of both.")
    sys.exit(main(parser.parse_args()))
