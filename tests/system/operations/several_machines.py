"""Two instances behind HAProxy, on one Redis, a primary and a streaming standby: what may happen to them.

`python -m tests.system.operations.several_machines` starts all of it on free ports of 127.0.0.1, breaks one
thing after another under load, prints the figures, and exits with 1 if one of them is not as it must be.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import psycopg

from tests.support.live import Service, migrated_server
from tests.support.postgresql import IMMEDIATE, PostgreSQLServer, postgresql_server, standby_server
from tests.support.servers import free_port, redis_server, wait_until
from tests.system.operations.machines import PAUSE, Customers, instance

MAX_LAG = 1  # Seconds: REPLICA_MAX_LAG.
HOLD = MAX_LAG + 1.0  # Seconds for which an account that wrote reads the primary.
CUSTOMERS = 8
PET = {"name": "Rex", "categoryId": 1}

PROXY = """
global
    maxconn 500
defaults
    mode http
    timeout connect 1s
    timeout client 30s
    timeout server 30s
    timeout check 2s
    option redispatch 1
    retries 3
    retry-on conn-failure
frontend all
    bind 127.0.0.1:{port}
    default_backend instances
backend instances
    balance roundrobin
    option httpchk GET /readyz
    default-server check inter 250ms fall 2 rise 1
{servers}
"""


class Figure(NamedTuple):
    """Something that was measured, and whether it is as it must be."""

    name: str
    value: str
    good: bool


class Shop(NamedTuple):
    """All that runs."""

    primary: PostgreSQLServer
    standby: PostgreSQLServer
    instances: list[Service]
    url: str  # The proxy's.

    def client(self, key: str) -> httpx.Client:
        """Return a client of the proxy."""
        return httpx.Client(
            base_url=f"{self.url}/v1", headers={"Authorization": f"Bearer {key}"}, timeout=30
        )

    def key(self, account: str) -> str:
        """Issue a key whose limits nobody reaches."""
        return self.instances[0].roomy_key(account)

    def readers(self, account: str) -> Customers:
        """Return customers of one account who list pets through the proxy."""
        headers = {"Authorization": f"Bearer {self.key(account)}"}
        return Customers(
            CUSTOMERS,
            lambda client: client.get("/pets?limit=3"),
            base_url=f"{self.url}/v1",
            headers=headers,
        )

    def reads(self, database: str) -> float:
        """Return how many reads this database has answered, as both instances count them."""
        pattern = re.compile(rf'^petstore_reads_total{{database="{database}"}} (\S+)$', re.MULTILINE)
        pages = [httpx.get(f"{service.url}/metrics").text for service in self.instances]
        return sum(float(found[1]) for page in pages if (found := pattern.search(page)))

    def replica_states(self) -> set[str]:
        """Return what the instances say of the replica; each has one worker."""
        return {httpx.get(f"{service.url}/readyz").json()["replica1"] for service in self.instances}


@contextmanager
def proxy(folder: Path, services: list[Service]) -> Iterator[str]:
    """Yield the address of an HAProxy before the instances."""
    port = free_port()
    servers = "\n".join(
        f"    server instance{number} {service.url.removeprefix('http://')}"
        for number, service in enumerate(services)
    )
    file = folder / "haproxy.cfg"
    file.write_text(PROXY.format(port=port, servers=servers))
    program = shutil.which("haproxy") or "/usr/sbin/haproxy"
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen([program, "-db", "-f", str(file)], stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: httpx.get(f"{url}/readyz").raise_for_status())
        yield url
    finally:
        process.kill()
        process.wait()


@contextmanager
def shop(folder: Path) -> Iterator[Shop]:
    """Start everything."""
    with ExitStack() as stack:
        primary = stack.enter_context(postgresql_server(copy_of=migrated_server()))
        standby = stack.enter_context(standby_server(primary))
        redis = stack.enter_context(redis_server(folder))
        settings = {
            "REDIS_URL": redis.url,
            "DATABASE_REPLICA_URL": standby.url,
            "REPLICA_MAX_LAG": str(MAX_LAG),
            "DRAIN_SECONDS": "2",
        }
        services = [
            stack.enter_context(instance(folder / name, primary.url, workers=1, **settings))
            for name in ("one", "two")
        ]
        url = stack.enter_context(proxy(folder, services))
        yield Shop(primary, standby, services, url)


def soon(condition: Callable[[], bool]) -> None:
    """Wait until it holds; AssertionError after 15 seconds."""

    def attempt() -> None:
        assert condition()

    wait_until(attempt)


def from_standby(of: Shop, client: httpx.Client) -> Callable[[], bool]:
    """Return a check: this client's reads go to the standby."""

    def check() -> bool:
        before = of.reads("replica1")
        for _ in range(4):
            client.get("/pets?limit=1")
        return of.reads("replica1") == before + 4

    return check


def own_writes(of: Shop, writes: int) -> list[Figure]:
    """Every account finds what it has just written, whichever instance it asks."""

    def write_and_read(customer: int) -> Counter[str]:
        found: Counter[str] = Counter()
        with of.client(keys[customer]) as client:
            for _ in range(writes // CUSTOMERS):
                made = client.post("/pets", json=PET)
                assert made.status_code == 201, made.text
                seen = client.get(f"/pets/{made.json()['id']}")
                assert seen.status_code in {200, 404}, seen.text
                found["found" if seen.content == made.content else "missed"] += 1
        return found

    keys = [of.key(f"Writer {number}") for number in range(CUSTOMERS)]
    with ThreadPoolExecutor(CUSTOMERS) as pool:
        found = sum(pool.map(write_and_read, range(CUSTOMERS)), Counter[str]())
    missed = found["missed"]
    return [Figure("own writes read back", f"{found.total()}, {missed} missed", not missed)]


def reads_from_standby(of: Shop) -> list[Figure]:
    """An account that wrote nothing lately reads from the standby; once it writes, from the primary."""
    with of.client(of.key("Reader")) as client:
        for _ in range(5):  # If the watch is held up for MAX_LAG, by a slow machine, the primary is read.
            soon(from_standby(of, client))
            before = of.reads("replica1"), of.reads("default")
            for _ in range(100):
                client.get("/pets?limit=1").raise_for_status()
            standby, primary = of.reads("replica1") - before[0], of.reads("default") - before[1]
            if not primary:
                break
        made = client.post("/pets", json=PET).json()
        before = of.reads("replica1"), of.reads("default")
        for _ in range(20):
            assert client.get(f"/pets/{made['id']}").json() == made
        after = of.reads("replica1") - before[0]
    return [
        Figure("100 reads of a reader", f"{standby:g} standby, {primary:g} primary", standby == 100),
        Figure("its 20 reads after a write", f"{after:g} standby", after == 0),
    ]


def paused_replay(of: Shop) -> list[Figure]:
    """While the standby is behind, nobody reads what is older than MAX_LAG, or misses an own write."""
    with (
        of.client(of.key("Patient")) as other,
        of.client(of.key("Writer")) as writer,
        psycopg.connect(of.standby.url, autocommit=True) as standby,
    ):
        soon(from_standby(of, other))
        standby.execute("SELECT pg_wal_replay_pause()")
        made = writer.post("/pets", json=PET).json()
        path = f"/pets/{made['id']}"
        began = asked_at = time.monotonic()
        missed_at, own = 0.0, 0
        while other.get(path).status_code != 200:
            missed_at = asked_at - began
            own += writer.get(path).status_code != 200
            assert time.monotonic() - began < 15
            time.sleep(PAUSE)
            asked_at = time.monotonic()
        end = began + HOLD + 1  # From now on only the standby's lag keeps the writer from it.
        asked = 0
        while time.monotonic() < end:
            own += writer.get(path).status_code != 200
            asked += 1
            time.sleep(PAUSE)
        states = of.replica_states()
        standby.execute("SELECT pg_wal_replay_resume()")
        resumed = time.monotonic()
        soon(from_standby(of, other))
        back = time.monotonic() - resumed
    return [
        Figure("replay paused: others miss a write until", f"{missed_at:.2f} s", missed_at < MAX_LAG),
        Figure("its writer missed it", f"{own} times of {asked}", own == 0),
        Figure("the instances say of the standby", ", ".join(sorted(states)), states == {"behind"}),
        Figure("read again after replay went on", f"{back:.2f} s", back < 5),
    ]


def breaking(
    of: Shop, name: str, begin: Callable[[], None], end: Callable[[], None], over: Callable[[], bool]
) -> list[Figure]:
    """Break something under load, wait until that is known, mend it. No request may fail."""
    with of.readers(name) as load:
        soon(lambda: load.each_got(200, since=0))
        time.sleep(HOLD + 0.5)  # Until its reads go to the standby: the load is what is measured.
        begin()
        soon(over)
        known = time.monotonic()
        soon(lambda: load.each_got(200, since=known))
        end()
    statuses = load.statuses()
    failures = {str(answer.body)[:200] for answer in load.all if answer.status != 200}
    slowest = max(answer.took for answer in load.all)
    return [
        Figure(
            name,
            f"{statuses.total()} requests, {statuses.total() - statuses[200]} failed, "
            f"slowest {slowest:.2f} s{''.join(f'; {text}' for text in failures)}",
            statuses.keys() == {200} and slowest < 2,
        )
    ]


def faults(of: Shop) -> list[Figure]:
    """End the standby, silence it, end an instance."""
    first = of.instances[0]

    def away() -> bool:
        return of.replica_states() == {"away"}

    def well() -> bool:
        return of.replica_states() == {"ok"}

    killed = breaking(of, "the standby killed", lambda: of.standby.stop(IMMEDIATE), of.standby.start, away)
    soon(well)
    silent = breaking(
        of, "the standby silent", of.standby.freeze, lambda: of.standby.freeze(thaw=True), away
    )
    soon(well)
    ended = breaking(
        of,
        "an instance ended by SIGTERM",
        first.stop,
        lambda: first.start(1),
        lambda: first.process is None,
    )
    return killed + silent + ended


def quota(of: Shop) -> list[Figure]:
    """A limit of 200 admits 200, whichever instance is asked."""
    key = of.instances[0].issue("Exact", "enterprise", "--per-minute", "200", "--per-day", "100000")["key"]

    def send(_: int) -> Counter[int]:
        with of.client(key) as client:
            return Counter(client.get("/pets?limit=1").status_code for _ in range(40))

    with ThreadPoolExecutor(CUSTOMERS) as pool:
        statuses = sum(pool.map(send, range(CUSTOMERS)), Counter[int]())
    text = f"{statuses[200]} admitted of {statuses.total()}"
    return [Figure("a limit of 200, both instances", text, statuses == {200: 200, 429: 120})]


def everything(of: Shop, writes: int) -> Iterator[Figure]:
    """Measure all."""
    yield from own_writes(of, writes)
    yield from reads_from_standby(of)
    yield from paused_replay(of)
    yield from faults(of)
    yield from quota(of)


def main() -> int:
    """Run, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writes", type=int, default=504, help="Writes that are read back.")
    options = parser.parse_args()
    all_good = True
    with tempfile.TemporaryDirectory(prefix="petstore-machines-") as name, shop(Path(name)) as of:
        for figure in everything(of, options.writes):
            print(f"{'ok ' if figure.good else 'BAD'} {figure.name}: {figure.value}", flush=True)
            all_good &= figure.good
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
