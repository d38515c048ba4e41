"""An asyncio HTTP/1.1 client: one connection, one request at a time, no retries."""

from __future__ import annotations

import asyncio
import itertools
import json
from time import monotonic
from typing import Any, NamedTuple

TIMEOUT = 10.0  # Seconds after which a request counts as hanging.
IDLE = 5.0  # Seconds after which a connection is not reused: the service may be closing it.
LOST = 0
SILENT = -1


class Reply(NamedTuple):
    """The outcome of a request; times are seconds of the monotonic clock."""

    request_id: str
    sent: float
    took: float
    status: int  # Or LOST: the connection was closed; or SILENT: timeout.
    headers: dict[str, str]  # Names in lower case.
    body: bytes

    @property
    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def code(self) -> str:
        body = self.json
        return str(body.get("code", "")) if isinstance(body, dict) else ""


class Client:
    """Sends requests with one key."""

    numbers = itertools.count(1)

    def __init__(self, port: int, key: str, run: str) -> None:
        """`run`: the prefix of this run's request IDs."""
        self._port = port
        self._key = key
        self._run = run
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._used_at = 0.0

    async def send(self, method: str, path: str, body: Any = None) -> Reply:
        request_id = f"{self._run}-{next(self.numbers)}"
        text = b"" if body is None else json.dumps(body).encode()
        lines = [
            f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self._key}",
            f"X-Request-Id: {request_id}", f"Content-Length: {len(text)}",
        ]  # fmt: skip
        if text:
            lines.append("Content-Type: application/json")
        message = "\r\n".join([*lines, "", ""]).encode() + text
        sent = monotonic()
        if sent - self._used_at > IDLE:
            self.close()
        try:
            async with asyncio.timeout(TIMEOUT):
                status, headers, content = await self._exchange(message)
        except TimeoutError:
            status, headers, content = SILENT, {}, b""
        except (OSError, EOFError, ValueError) as error:
            status, headers, content = LOST, {}, repr(error).encode()
        self._used_at = monotonic()
        if status <= 0 or headers.get("connection") == "close":
            self.close()
        return Reply(request_id, sent, self._used_at - sent, status, headers, content)

    async def _exchange(self, message: bytes) -> tuple[int, dict[str, str], bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(message)
        head, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        status = int(head.split(" ")[1])
        length = 0 if status == 204 else int(headers["content-length"])
        return status, headers, await reader.readexactly(length)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
