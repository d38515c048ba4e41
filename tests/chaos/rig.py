"""A service that reaches Redis and PostgreSQL through chaos proxies."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from tests.chaos.faults import Fault, FaultKind
from tests.chaos.proxy import READY_FOR_QUERY, Proxy
from tests.load.requests import memory_mib
from tests.support.live import ROOT, Service, stopped_service, temporary_database
from tests.support.packages import python
from tests.support.servers import RedisServer, redis_server, wait_until

WORKERS = 2
NO_SYNC_DELAY = ("--repl-diskless-sync-delay", "0")
FAILOVER_SECONDS = 10
START_SECONDS = 90.0  # The proxies share the machine with the service and with other tests.


class RedisPair:
    """A Redis server and its read-only replica, which can swap roles."""

    def __init__(self, primary: RedisServer, replica: RedisServer) -> None:
        self.primary, self.replica = primary, replica
        with replica.client as client:
            client.replicaof("127.0.0.1", primary.port)

    def fail_over(self) -> int:
        """Swap roles without losing data; returns the new primary's port."""
        old, new = self.primary, self.replica

        def in_sync() -> bool:
            with old.client as client:
                return bool(client.info("replication")["slave0"]["state"] == "online")

        def is_promoted() -> bool:
            with new.client as client:
                return bool(client.info("replication")["role"] == "master")

        wait_until(in_sync, FAILOVER_SECONDS)
        with old.client as client:
            client.execute_command("FAILOVER", "TO", "127.0.0.1", new.port, "TIMEOUT", 5_000)
        wait_until(is_promoted, FAILOVER_SECONDS)
        self.primary, self.replica = new, old
        return new.port

    def scripts_run(self) -> int:
        """Count the scripts that the primary has run."""
        with self.primary.client as client:
            statistics: dict[str, Any] = client.info("commandstats")
        return sum(
            int(one["calls"]) - int(one["failed_calls"]) - int(one["rejected_calls"])
            for name, one in statistics.items()
            if name.removeprefix("cmdstat_") in {"evalsha", "eval", "fcall"}
        )


class Usage(NamedTuple):
    """Resources of the service's processes."""

    mib: float
    sockets: int


@dataclass
class Rig:
    """The service, the proxies and the backends."""

    service: Service
    database: str  # The URL without the proxy.
    proxies: dict[str, Proxy]
    redis: RedisPair
    rows: dict[str, Any]  # What `tests.chaos.fill` created.
    injected: Counter[tuple[str, FaultKind]] = field(default_factory=Counter)

    @property
    def port(self) -> int:
        return int(self.service.environment["PORT"])

    async def inject(self, faults: list[Fault], log: Callable[[str], None]) -> None:
        """Run one backend's faults in sequence."""
        for fault in faults:
            await asyncio.sleep(fault.pause)
            log(str(fault))
            self.injected[fault.backend, fault.kind] += 1
            proxy = self.proxies[fault.backend]
            if fault.kind is FaultKind.FAILOVER:
                proxy.backend = await asyncio.to_thread(self.redis.fail_over)
                continue
            proxy.inject(fault)
            try:
                await asyncio.sleep(fault.seconds)
            finally:
                proxy.heal()

    def usage(self) -> Usage:
        pids = self.service.processes()
        files = [entry for pid in pids for entry in Path(f"/proc/{pid}/fd").iterdir()]
        return Usage(memory_mib(pids), sum(is_socket(file) for file in files))


def is_socket(file: Path) -> bool:
    """Whether an entry of /proc/PID/fd is an open socket."""
    try:
        return str(file.readlink()).startswith("socket:")
    except OSError:
        return False


def replace_address(url: str, port: int) -> str:
    """Replace the address in a server's URL with a proxy's."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}{at}127.0.0.1:{port}"))


def fill(database: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Create the wanted rows, and return them."""
    environment = os.environ | {"DATABASE_URL": database, "REDIS_URL": ""}
    done = subprocess.run(
        [python(), "-m", "tests.chaos.fill", json.dumps(wanted)],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@contextmanager
def redis_pair(folder: Path) -> Iterator[RedisPair]:
    for name in ("first", "second"):
        (folder / name).mkdir()
    with (
        redis_server(folder / "first", *NO_SYNC_DELAY) as first,
        redis_server(folder / "second", *NO_SYNC_DELAY) as second,
    ):
        yield RedisPair(first, second)


@asynccontextmanager
async def rig(
    folder: Path, template: str, wanted: dict[str, Any], redis_path: str, settings: dict[str, str]
) -> AsyncIterator[Rig]:
    """Yield a running service with the wanted rows in its database.

    `redis_path`: of REDIS_URL; with a database number, connections start with a SELECT.
    """
    async with AsyncExitStack() as stack:
        database = stack.enter_context(temporary_database(folder, copy_of=template))
        pair = stack.enter_context(redis_pair(folder))
        redis = await stack.enter_async_context(Proxy(pair.primary.port))
        postgresql = await stack.enter_async_context(
            Proxy(urlsplit(database).port or 5432, READY_FOR_QUERY)
        )
        rows = await asyncio.to_thread(fill, database, wanted)
        own = {
            "REDIS_URL": f"redis://127.0.0.1:{redis.port}{redis_path}",
            "ANONYMOUS_PER_MINUTE": "300",  # The default: no valid key may be counted as its address.
        }
        url = replace_address(database, postgresql.port)
        service = stopped_service(folder, url, **(own | settings))
        stack.push_async_callback(asyncio.to_thread, service.stop)
        await asyncio.to_thread(service.start, WORKERS, timeout=START_SECONDS)
        yield Rig(service, database, {"redis": redis, "postgresql": postgresql}, pair, rows)
