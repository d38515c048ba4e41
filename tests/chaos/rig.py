"""A service that reaches Redis and PostgreSQL through chaos proxies."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from tests.chaos.faults import Fault, Kind
from tests.chaos.proxy import READY_FOR_QUERY, Proxy
from tests.load.requests import memory_mib
from tests.support.live import ROOT, Service, own_database
from tests.support.packages import python
from tests.support.servers import RedisServer, free_port, redis_server, wait_until

WORKERS = 2
PROMPT = ("--repl-diskless-sync-delay", "0")  # A replica is one at once.
FAILOVER_SECONDS = 10
START_SECONDS = 90.0  # The proxies share the machine with the rest, and with other tests.


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

        def done() -> bool:
            with new.client as client:
                return bool(client.info("replication")["role"] == "master")

        wait_until(in_sync, FAILOVER_SECONDS)
        with old.client as client:
            client.execute_command("FAILOVER", "TO", "127.0.0.1", new.port, "TIMEOUT", 5_000)
        wait_until(done, FAILOVER_SECONDS)
        self.primary, self.replica = new, old
        return new.port

    def scripts_run(self) -> int:
        """Count the scripts that the primary has run."""
        with self.primary.client as client:
            found: dict[str, Any] = client.info("commandstats")
        return sum(
            int(one["calls"]) - int(one["failed_calls"]) - int(one["rejected_calls"])
            for name, one in found.items()
            if name.removeprefix("cmdstat_") in {"evalsha", "eval", "fcall"}
        )


class Usage(NamedTuple):
    """Resources of the service's processes."""

    mib: float
    sockets: int


class Rig:
    """The service, the proxies and the backends."""

    def __init__(
        self, service: Service, database: str, proxies: dict[str, Proxy], redis: RedisPair
    ) -> None:
        self.service = service
        self.database = database  # The URL without the proxy.
        self.proxies = proxies
        self.redis = redis
        self.injected: Counter[tuple[str, Kind]] = Counter()

    @property
    def port(self) -> int:
        return int(self.service.environment["PORT"])

    async def inflict(self, faults: list[Fault], tell: Callable[[str], None]) -> None:
        """Run one backend's faults in sequence."""
        for fault in faults:
            await asyncio.sleep(fault.pause)
            tell(str(fault))
            self.injected[fault.backend, fault.kind] += 1
            proxy = self.proxies[fault.backend]
            if fault.kind is Kind.FAILOVER:
                proxy.backend = await asyncio.to_thread(self.redis.fail_over)
                continue
            proxy.strike(fault)
            try:
                await asyncio.sleep(fault.seconds)
            finally:
                proxy.mend()

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


def through(url: str, port: int) -> str:
    """Replace the address in a server's URL by a proxy's."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}{at}127.0.0.1:{port}"))


def port_of(url: str) -> int:
    return urlsplit(url).port or 5432


def fill(environment: dict[str, str], wanted: dict[str, Any]) -> dict[str, Any]:
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
        redis_server(folder / "first", *PROMPT) as first,
        redis_server(folder / "second", *PROMPT) as second,
    ):
        yield RedisPair(first, second)


@asynccontextmanager
async def rig(
    folder: Path, template: str, wanted: dict[str, Any], redis_path: str, settings: dict[str, str]
) -> AsyncIterator[tuple[Rig, dict[str, Any]]]:
    """Yield a running service with what was wanted in its database, and what that is.

    `redis_path`: of REDIS_URL; with a number of a database a connection begins with a command.
    """
    async with AsyncExitStack() as stack:
        database = stack.enter_context(own_database(folder, copy_of=template))
        pair = stack.enter_context(redis_pair(folder))
        redis = await stack.enter_async_context(Proxy(pair.primary.port))
        postgresql = await stack.enter_async_context(Proxy(port_of(database), READY_FOR_QUERY))
        direct = os.environ | {"DATABASE_URL": database, "REDIS_URL": ""}
        made = await asyncio.to_thread(fill, direct, wanted)
        port = str(free_port())
        own = {
            "PORT": port,
            "BASE_URL": f"http://127.0.0.1:{port}/v1",
            "DATABASE_URL": through(database, postgresql.port),
            "REDIS_URL": f"redis://127.0.0.1:{redis.port}{redis_path}",
            "ANONYMOUS_PER_MINUTE": "300",  # As by default: no valid key may be counted as its address.
        }
        service = Service(os.environ | own | settings, folder)
        stack.push_async_callback(asyncio.to_thread, service.stop)
        await asyncio.to_thread(service.start, WORKERS, timeout=START_SECONDS)
        yield Rig(service, database, {"redis": redis, "postgresql": postgresql}, pair), made
