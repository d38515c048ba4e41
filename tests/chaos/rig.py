"""A service that reaches PostgreSQL through a chaos proxy."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from tests.chaos.faults import Fault
from tests.chaos.proxy import READY_FOR_QUERY, Proxy
from tests.support.live import Service, stopped_service
from tests.support.migrated import temporary_database
from tests.support.preloaded import CommandRunner
from tests.support.servers import memory_mib

WORKERS = 2
START_SECONDS = 90.0  # The proxy shares the machine with the service and with other tests.


class Usage(NamedTuple):
    """Resources of the service's processes."""

    mib: float
    sockets: int


@dataclass
class Rig:
    """The service, and the proxy in front of its database."""

    service: Service
    database: str  # The URL without the proxy.
    proxy: Proxy
    rows: dict[str, Any]  # What `tests.chaos.fill` created.

    @property
    def port(self) -> int:
        return int(self.service.environment["PORT"])

    async def inject(self, faults: list[Fault]) -> None:
        """Run faults in sequence."""
        for fault in faults:
            await asyncio.sleep(fault.pause)
            self.proxy.inject(fault)
            try:
                await asyncio.sleep(fault.seconds)
            finally:
                self.proxy.heal()

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
    code = f"import json; from tests.chaos.fill import fill; print(json.dumps(fill({wanted!r})))"
    with closing(CommandRunner(os.environ | {"DATABASE_URL": database})) as commands:
        return dict(json.loads(commands.manage("shell", "--no-imports", "-c", code)))


@asynccontextmanager
async def rig(folder: Path, template: str, wanted: dict[str, Any]) -> AsyncIterator[Rig]:
    """Yield a running service with the wanted rows in its database."""
    async with AsyncExitStack() as stack:
        database = stack.enter_context(temporary_database(folder, copy_of=template))
        port = urlsplit(database).port or 5432
        proxy = await stack.enter_async_context(Proxy(port, READY_FOR_QUERY))
        rows = await asyncio.to_thread(fill, database, wanted)
        own = {"ANONYMOUS_PER_MINUTE": "300"}  # The default: no valid key may be counted as its address.
        url = replace_address(database, proxy.port)
        service = stopped_service(folder, url, **own)
        stack.push_async_callback(asyncio.to_thread, service.stop)
        await asyncio.to_thread(service.start, WORKERS, timeout=START_SECONDS)
        yield Rig(service, database, proxy, rows)
