"""Two instances behind the deployed proxy, on a primary and a streaming standby."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

import httpx
import psycopg
import pytest

from tests.support.live import Service
from tests.support.migrated import migrated_server
from tests.support.postgresql import IMMEDIATE, PostgreSQLServer, postgresql_server, standby_server
from tests.support.servers import free_port, wait_until
from tests.support.skips import needs_program
from tests.support.thorough import THOROUGH
from tests.system.operations import proxy
from tests.system.operations.machines import OWN_SERVERS, PAUSE, Customers, instance

pytestmark = [*OWN_SERVERS, needs_program(proxy.program(), "haproxy")]

MAX_LAG = 1  # Seconds: REPLICA_MAX_LAG.
PRIMARY_SECONDS = MAX_LAG + 1.0  # Seconds for which an account reads the primary after a write.
CUSTOMERS = 8
WRITES = 10  # Per customer.
PET = {"name": "Rex", "categoryId": 1}


class Shop(NamedTuple):
    """The databases, the instances and the proxy."""

    primary: PostgreSQLServer
    standby: PostgreSQLServer
    instances: list[Service]
    url: str  # The proxy's URL.

    def client(self, key: str) -> httpx.Client:
        """Return a client of the proxy."""
        return httpx.Client(
            base_url=f"{self.url}/v1", headers={"Authorization": f"Bearer {key}"}, timeout=30
        )

    def key(self, account: str) -> str:
        """Issue a key with limits that no test reaches."""
        return self.instances[0].issue_high_limit_key(account)

    def readers(self, account: str) -> Customers:
        """Return customers of one account that list pets through the proxy."""
        key = self.key(account)
        return Customers(CUSTOMERS, self.url, key, lambda client: client.get("/pets?limit=3"))

    def reads(self, database: str) -> float:
        """Return the number of reads from this database, which both instances count."""
        pattern = re.compile(rf'^petstore_reads_total{{database="{database}"}} (\S+)$', re.MULTILINE)
        pages = [httpx.get(f"{service.url}/metrics").text for service in self.instances]
        return sum(float(found[1]) for page in pages if (found := pattern.search(page)))

    def replica_states(self) -> set[str]:
        """Return the replica's states according to the instances, which have one worker each."""
        return {httpx.get(f"{service.url}/readyz").json()["replica1"] for service in self.instances}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("machines")
    with ExitStack() as stack:
        primary = stack.enter_context(postgresql_server(copy_of=migrated_server()))
        standby = stack.enter_context(standby_server(primary))
        settings = {
            "DATABASE_REPLICA_URL": standby.url,
            "REPLICA_MAX_LAG": str(MAX_LAG),
            "DRAIN_SECONDS": "2" if THOROUGH else "0",  # For the instance that stops.
        }
        services = [
            stack.enter_context(instance(folder / name, primary.url, workers=1, **settings))
            for name in ("one", "two")
        ]
        a, b = (int(service.environment["PORT"]) for service in services)
        port = free_port()
        changes = proxy.NO_CLIENT_LIMITS
        stack.enter_context(proxy.haproxy(folder, a, b, port, changes))
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: httpx.get(f"{url}/readyz").raise_for_status())
        yield Shop(primary, standby, services, url)


def wait_briefly(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true. Raises AssertionError after 15 seconds."""
    wait_until(condition, seconds=15)


def reads_from_standby(shop: Shop, client: httpx.Client) -> Callable[[], bool]:
    """Return a condition that is true if this client's reads go to the standby."""

    def check() -> bool:
        before = shop.reads("replica1")
        for _ in range(4):
            client.get("/pets?limit=1")
        return shop.reads("replica1") == before + 4

    return check


def test_every_account_reads_its_own_writes(shop: Shop) -> None:
    def write_and_read(key: str) -> None:
        with shop.client(key) as client:
            for _ in range(WRITES):
                made = client.post("/pets", json=PET)
                assert made.status_code == 201, made.text
                assert client.get(f"/pets/{made.json()['id']}").content == made.content

    keys = [shop.key(f"Writer {number}") for number in range(CUSTOMERS)]
    with ThreadPoolExecutor(CUSTOMERS) as pool:
        list(pool.map(write_and_read, keys))


def test_account_reads_from_the_standby_but_after_a_write_from_the_primary(
    shop: Shop,
) -> None:
    with shop.client(shop.key("Reader")) as client:
        for _ in range(5):  # If a slow machine delays the monitor for MAX_LAG, reads go to the primary.
            wait_briefly(reads_from_standby(shop, client))
            before = shop.reads("replica1"), shop.reads("default")
            for _ in range(100):
                client.get("/pets?limit=1").raise_for_status()
            standby, primary = shop.reads("replica1") - before[0], shop.reads("default") - before[1]
            if not primary:
                break
        assert (standby, primary) == (100, 0)
        made = client.post("/pets", json=PET).json()
        before_reads = shop.reads("replica1")
        for _ in range(20):
            assert client.get(f"/pets/{made['id']}").json() == made
        assert shop.reads("replica1") == before_reads


def test_lagging_standby_serves_no_stale_reads_and_hides_no_own_write(
    shop: Shop,
) -> None:
    with (
        shop.client(shop.key("Patient")) as other,
        shop.client(shop.key("Writer")) as writer,
        psycopg.connect(shop.standby.url, autocommit=True) as standby,
    ):
        wait_briefly(reads_from_standby(shop, other))
        standby.execute("SELECT pg_wal_replay_pause()")
        path = f"/pets/{writer.post('/pets', json=PET).json()['id']}"
        began = asked_at = time.monotonic()
        missed_at = 0.0
        while other.get(path).status_code != 200:
            missed_at = asked_at - began
            assert writer.get(path).status_code == 200
            assert time.monotonic() - began < 15
            time.sleep(PAUSE)
            asked_at = time.monotonic()
        assert missed_at < MAX_LAG
        end = began + PRIMARY_SECONDS + 1  # From now on only the standby's lag excludes it for the writer.
        while time.monotonic() < end:
            assert writer.get(path).status_code == 200
            time.sleep(PAUSE)
        assert shop.replica_states() == {"lagging"}
        standby.execute("SELECT pg_wal_replay_resume()")
        wait_until(reads_from_standby(shop, other), seconds=5)


@pytest.mark.skipif(not THOROUGH, reason="It takes its time: see tests/support/thorough.py.")
@pytest.mark.parametrize("fault", ["standby killed", "standby silent", "instance stopped"])
def test_no_request_fails_while_a_machine_is_down(shop: Shop, fault: str) -> None:
    first = shop.instances[0]
    faults: dict[str, tuple[Callable[[], object], Callable[[], object], Callable[[], bool]]] = {
        "standby killed": (
            lambda: shop.standby.stop(IMMEDIATE),
            shop.standby.start,
            lambda: shop.replica_states() == {"unavailable"},
        ),
        "standby silent": (
            shop.standby.freeze,
            lambda: shop.standby.freeze(thaw=True),
            lambda: shop.replica_states() == {"unavailable"},
        ),
        "instance stopped": (first.stop, lambda: first.start(1), lambda: first.process is None),
    }
    begin, end, is_over = faults[fault]
    wait_briefly(lambda: shop.replica_states() == {"ok"})
    with shop.readers(fault) as load:
        wait_briefly(lambda: load.each_got(200, since=0))
        # Until reads go to the standby, so that the load is measured.
        time.sleep(PRIMARY_SECONDS + 0.5)
        begin()
        wait_briefly(is_over)
        known = time.monotonic()
        wait_briefly(lambda: load.each_got(200, since=known))
        end()
    failures = [outcome.body for outcome in load.all if outcome.status != 200]
    assert not failures, failures[:3]
    assert max(outcome.took for outcome in load.all) < 2


def test_limit_holds_across_instances(shop: Shop) -> None:
    """Also while the counter is replaced, after 1,000 requests."""
    numbers = ("--per-minute", "1100", "--per-day", "100000")
    key = shop.instances[0].issue("Exact", "enterprise", *numbers)["key"]

    def send(_: int) -> Counter[int]:
        with shop.client(key) as client:
            return Counter(client.get("/pets?limit=1").status_code for _ in range(150))

    with ThreadPoolExecutor(CUSTOMERS) as pool:
        statuses = sum(pool.map(send, range(CUSTOMERS)), Counter[int]())
    assert statuses == {200: 1_100, 429: 100}
