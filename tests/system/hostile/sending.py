"""Sends attacks over sockets, and checks that others are served."""

import asyncio
import re
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from tests.system.hostile.attacks import ATTACKS

CONNECTIONS = 48
QUIET_SECONDS = 0.3  # After this silence a response counts as complete, or as absent.
HANG_SECONDS = 10.0  # How long a connection may stay open once its client has finished.
WATCH_INTERVAL = 0.25
WATCH_SECONDS = 5.0  # How long a well-behaved client may wait.
MAX_BYTES = 4_000_000
STATUS = re.compile(rb"(?:\A|\r\n\r\n|[\]}>])HTTP/1\.[01] (\d{3}) ")


@dataclass
class Findings:
    """The outcomes of the requests."""

    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[tuple[bytes, bytes]] = field(default_factory=list)  # The first requests with a 5xx.
    hangs: list[bytes] = field(default_factory=list)
    watched: int = 0
    not_served: list[str] = field(default_factory=list)  # What well-behaved clients got instead of 200.


class Attacker:
    """Sends a number of attacks to one address."""

    def __init__(self, port: int, key: str, requests: int, seed: int) -> None:
        self.port = port
        self.key = key
        self.findings = Findings()
        self._choose = Random(seed)
        self._left = requests

    async def run(self) -> Findings:
        """Send all attacks; return the findings."""
        watching = asyncio.create_task(self._watch())
        await asyncio.gather(*(self._attack() for _ in range(CONNECTIONS)))
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        return self.findings

    async def _attack(self) -> None:
        while self._left > 0:
            self._left -= 1
            request = self._choose.choice(ATTACKS)(self._choose, self.key)
            self.findings.sent += 1
            response, hung = await self._exchange(request)
            statuses = [int(status) for status in STATUS.findall(response)]
            self.findings.statuses.update(statuses)
            if any(status >= 500 for status in statuses):
                self.findings.failures = [*self.findings.failures, (request, response)][:20]
            if hung:
                self.findings.hangs = [*self.findings.hangs, request][:20]

    async def _exchange(self, request: bytes) -> tuple[bytes, bool]:
        """Send a request; return the response, and whether the server left a finished connection open."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        response = b""
        try:
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(HANG_SECONDS):
                    writer.write(request)
                    await writer.drain()  # A server that has responded need not read the rest.
            response, ended = await read(reader, QUIET_SECONDS)
            if not ended:
                with suppress(OSError):
                    writer.write_eof()
                rest, ended = await read(reader, HANG_SECONDS)
                response += rest
            return response, not ended
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _watch(self) -> None:
        """A well-behaved client, with a new connection each time."""
        request = "GET /v1/pets?limit=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        request += f"Authorization: Bearer {self.key}\r\n\r\n"
        while True:
            began = time.monotonic()
            response = b""
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(WATCH_SECONDS):
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                    try:
                        writer.write(request.encode())
                        response = await reader.read()
                    finally:
                        writer.close()
            took = time.monotonic() - began
            self.findings.watched += 1
            if not response.startswith(b"HTTP/1.1 200 "):
                self.findings.not_served.append(f"{response[:40]!r} after {took:.1f} s")
            await asyncio.sleep(WATCH_INTERVAL)


async def read(reader: asyncio.StreamReader, quiet: float) -> tuple[bytes, bool]:
    """Read until EOF or this many seconds of silence; return the bytes, and whether EOF was reached."""
    response = b""
    try:
        while len(response) < MAX_BYTES:
            async with asyncio.timeout(quiet):
                part = await reader.read(65_536)
            if not part:
                return response, True
            response += part
    except TimeoutError:
        return response, False
    except ConnectionError:
        return response, True
    return response, True
