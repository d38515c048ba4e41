"""Backs a live database up under writes, restores it into an empty one, and serves from that.

    python -m tests.system.operations.backup --pets 20000 --seconds 20

Says how long the dump and the restore took, and what of the writes is in it. Needs PostgreSQL
(DATABASE_URL, or a local one) with its programs, and redis-server. docs/backup.md is the procedure that
this follows.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg

from tests import environment
from tests.support import servers
from tests.support.live import Service, live_service, own_database
from tests.support.servers import free_port

# What must never be in a database, whenever it was dumped; the names are those of the report.
WRONG = {
    "pets with a live order that are not pending": """
        SELECT count(*) FROM inventory_order AS o JOIN inventory_pet AS p ON p.id = o.pet_id
        WHERE o.status IN ('placed', 'approved') AND p.status <> 'pending'
    """,
    "pets pending by an order that is not there": """
        SELECT count(*) FROM inventory_petevent AS e LEFT JOIN inventory_order AS o ON o.id = e.order_id
        WHERE e.order_id IS NOT NULL AND o.id IS NULL
    """,
    "orders without a history": """
        SELECT count(*) FROM inventory_order AS o
        WHERE NOT EXISTS (SELECT FROM inventory_orderevent AS e WHERE e.order_id = o.id)
    """,
    "keys without a history": """
        SELECT count(*) FROM accounts_apikey AS k
        WHERE NOT EXISTS (
            SELECT FROM backoffice_auditentry AS e
            WHERE e.model = 'accounts.apikey' AND e.object_id = k.id::text
        )
    """,
}


@dataclass
class Writer:
    """Adds pets and orders one after the other, and remembers when each was acknowledged."""

    url: str
    key: str
    acknowledged: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)

    def write(self, stop: threading.Event) -> None:
        """Write until told to stop."""
        headers = {"Authorization": f"Bearer {self.key}"}
        with httpx.Client(base_url=f"{self.url}/v1", headers=headers, timeout=30) as client:
            while not stop.is_set():
                pet = self._post(client, "/pets", {"name": "Backup", "categoryId": 1})
                self._post(client, "/store/orders", {"petId": pet})

    def _post(self, client: httpx.Client, path: str, body: dict[str, object]) -> int:
        answer = client.post(path, json=body)
        if answer.status_code != 201:
            self.failed.append(answer.status_code)
            return 0
        made = int(answer.json()["id"])
        self.acknowledged.setdefault(path, []).append((time.monotonic(), made))
        return made

    def before(self, moment: float, path: str) -> set[int]:
        """Return the ids that were acknowledged before that moment."""
        return {made for at, made in self.acknowledged.get(path, []) if at < moment}


@dataclass
class Restored:
    """What came of a backup."""

    dump_seconds: float
    restore_seconds: float
    dump_bytes: int
    written: int
    failed_writes: list[int]
    lost: int  # Writes that were acknowledged before the dump began, and are not in it.
    wrong: dict[str, int]
    failed_checks: list[str]
    conformance: dict[str, int]
    old_keys: dict[str, int]  # The answers to the keys that were issued before the dump.
    lost_events: int  # The answer to a client that follows the feed and has read events since the dump.

    @property
    def sound(self) -> bool:
        """Whether nothing was lost and everything works."""
        nothing_bad = not (
            self.lost or self.failed_writes or any(self.wrong.values()) or self.failed_checks
        )
        works = self.old_keys == {"active": 200, "revoked": 401} and self.conformance.get("failed") == 0
        return nothing_bad and works and self.lost_events == 410


@contextmanager
def writes(service: Service, key: str) -> Iterator[Writer]:
    """Yield a writer that writes meanwhile."""
    stop, writer = threading.Event(), Writer(service.url, key)
    thread = threading.Thread(target=writer.write, args=[stop])
    thread.start()
    try:
        yield writer
    finally:
        stop.set()
        thread.join(60)


def timed(command: list[str]) -> float:
    """Run a command; return the seconds that it took."""
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - began


def back_up_and_restore(folder: Path, redis_url: str, *, pets: int, seconds: float) -> Restored:
    """Do it. `seconds`: how long to write before and after the dump begins, in all."""
    with ExitStack() as stack:
        (folder / "first").mkdir()
        first = stack.enter_context(live_service(folder / "first", workers=1, REDIS_URL=redis_url))
        first.manage("seed_demo", "--pets", str(pets))
        gone = first.issue("Backup")
        keys = {"active": first.roomy_key("Backup"), "revoked": str(gone["key"])}
        first.manage("revoke_key", str(gone["id"]), "--reason", "Before the backup")
        dump = folder / "petstore.dump"
        with writes(first, keys["active"]) as writer:
            wait(lambda: len(writer.acknowledged.get("/store/orders", [])) >= 5, seconds / 2)
            began = time.monotonic()
            source = first.environment["DATABASE_URL"]
            dumping = timed(["pg_dump", "--format=custom", f"--file={dump}", source])
            done = len(writer.acknowledged["/pets"])
            wait(lambda: len(writer.acknowledged["/pets"]) > done, seconds / 2)
            place = place_in_feed(first, keys["active"])
        first.stop()
        (folder / "second").mkdir()
        url = stack.enter_context(own_database(folder / "second"))
        whole = ["--no-owner", "--exit-on-error", "--single-transaction"]
        restoring = timed(["pg_restore", *whole, f"--dbname={url}", str(dump)])
        port = str(free_port())
        own = {"PORT": port, "BASE_URL": f"http://127.0.0.1:{port}/v1", "DATABASE_URL": url}
        second = Service(first.environment | own, folder / "second")
        stack.callback(second.stop)
        wrong, lost = inspect(url, writer, began)
        failed_checks = check(second)
        second.manage("claim_redis")
        second.start(1)
        return Restored(
            dump_seconds=dumping,
            restore_seconds=restoring,
            dump_bytes=dump.stat().st_size,
            written=sum(map(len, writer.acknowledged.values())),
            failed_writes=writer.failed,
            lost=lost,
            wrong=wrong,
            failed_checks=failed_checks,
            conformance=conformance(second, keys["active"]),
            old_keys={name: answer_to(second, key) for name, key in keys.items()},
            lost_events=answer_to(second, keys["active"], place),
        )


def wait(there: Callable[[], bool], seconds: float) -> None:
    """Wait so long, and until it is so."""
    end = time.monotonic() + seconds
    while time.monotonic() < end or not there():
        assert time.monotonic() < end + 30, "The writer writes nothing."
        time.sleep(0.02)


def inspect(url: str, writer: Writer, began: float) -> tuple[dict[str, int], int]:
    """Return what is wrong in a database, and how many writes of before that moment are not there."""
    with psycopg.connect(url) as connection:
        wrong = {name: number(connection, query) for name, query in WRONG.items()}
        lost = 0
        for path, table in (("/pets", "inventory_pet"), ("/store/orders", "inventory_order")):
            ids = list(writer.before(began, path))
            lost += len(ids) - number(connection, f"SELECT count(*) FROM {table} WHERE id = ANY(%s)", ids)
    return wrong, lost


def check(service: Service) -> list[str]:
    """Return which checks of the restored database fail."""
    failed = []
    for command in (["check", "--database", "default"], ["migrate", "--check"]):
        try:
            service.manage(*command)
        except AssertionError as error:
            failed.append(f"{' '.join(command)}: {error}")
    return failed


def conformance(service: Service, key: str) -> dict[str, int]:
    """Return how many checks of the contract passed and failed."""
    report = service.manage("conformance", f"{service.url}/v1", "--key", key, "--write", "--json")
    return dict(json.loads(report)["counts"])


def place_in_feed(service: Service, key: str) -> str:
    """Return where a client goes on that has read an event of this moment or later."""
    path = f"/events?limit=1&since={datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    with service.client(key) as client:
        wait(lambda: bool(client.get(path).json()), 0)
        url: str = client.get(path).links["next"]["url"]
    return url.removeprefix(service.environment["BASE_URL"])


def answer_to(service: Service, key: str, path: str = "/pets?limit=1") -> int:
    """Return the status that a key gets."""
    with service.client(key) as client:
        return client.get(path).status_code


def number(connection: psycopg.Connection[tuple[int]], query: str, *parameters: object) -> int:
    """Return the one number that a query asks for."""
    row = connection.execute(query.encode(), parameters or None).fetchone()
    assert row is not None
    return int(row[0])


def main(options: argparse.Namespace) -> int:
    """Back up, restore, print; return 1 if anything is wrong."""
    url = servers.postgresql()
    if url is None or urlsplit(url).scheme not in {"postgres", "postgresql"}:
        print("No PostgreSQL answers. Start one, or set DATABASE_URL.")
        return 1
    os.environ |= environment.FIXED | {"DATABASE_URL": url}
    with tempfile.TemporaryDirectory() as name, servers.redis_server(Path(name)) as own:
        found = back_up_and_restore(Path(name), own.url, pets=options.pets, seconds=options.seconds)
    size = f"{found.dump_bytes / 1e6:.1f} MB"
    print(f"dump     {found.dump_seconds:.1f} s, {size}, while {found.written} writes came")
    print(f"restore  {found.restore_seconds:.1f} s")
    print(f"writes that failed: {found.failed_writes}; acknowledged before the dump and lost: {found.lost}")
    print(*(f"{count} {what}" for what, count in found.wrong.items()), sep="\n")
    print(f"keys from before: {found.old_keys}; conformance: {found.conformance}")
    print(f"cursor of events that are gone: {found.lost_events}")
    print("\n".join(found.failed_checks) or "Django's checks pass.")
    print("Sound." if found.sound else "NOT sound.")
    return 0 if found.sound else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pets", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=20)
    sys.exit(main(parser.parse_args()))
