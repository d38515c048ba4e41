"""The real PostgreSQL and Redis servers that the tests use."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import redis

START_SECONDS = 60  # Timeout of a server's start, while other tests keep every core busy.
LOCAL_POSTGRESQL = (
    "postgresql://postgres@127.0.0.1:5432/postgres",
    "postgresql://root@127.0.0.1:5432/postgres",
    "postgresql://petstore:petstore@127.0.0.1:5432/petstore",  # compose.yaml
)


def postgresql() -> str | None:
    """The URL of a PostgreSQL where databases can be created: DATABASE_URL's or a local one's."""
    named = os.environ.get("DATABASE_URL", "")
    for url in [named] if named.startswith("postgres") else LOCAL_POSTGRESQL:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            continue
        return url
    return None


@contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[RedisServer]:
    """Start a Redis that a test may flush, stop and restart."""
    server = RedisServer(folder, free_port(), options)
    try:
        server.start()
        yield server
    finally:
        server.stop()


class RedisServer:
    """A redis-server process on a port of its own, without persistence."""

    program = "redis-server"

    def __init__(self, folder: Path, port: int, options: tuple[str, ...]) -> None:
        self.folder = folder
        self.port = port
        self.options = options
        self.url = f"redis://127.0.0.1:{port}"
        self.process: subprocess.Popen[bytes] | None = None
        self._client: redis.Redis | None = None

    @property
    def client(self) -> redis.Redis:
        """A client that is closed when the server stops; otherwise the collector would warn."""
        self._client = self._client or redis.Redis.from_url(self.url)
        return self._client

    def start(self) -> None:
        """Start, and wait until the server responds."""
        listen = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        keep = ["--save", "", "--appendonly", "no", "--logfile", str(self.folder / "redis.log")]
        self.process = subprocess.Popen([self.program, *listen, *keep, *self.options])
        wait_until(self.client.ping)

    def stop(self) -> None:
        """Stop at once, like a crash."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def wait_until(attempt: Callable[[], object], seconds: float = START_SECONDS) -> None:
    """Retry until there is no exception, and the result is not False. For starts of servers only."""
    end = time.monotonic() + seconds
    while True:
        try:
            assert attempt() is not False
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)  # Polling takes CPU from the starting server.
        else:
            return


RANDOM = random.SystemRandom()  # Hypothesis seeds the other alike in every process.


def free_port() -> int:
    """A port on which nothing listens.

    Below the system's ephemeral ports; a Redis in a cluster also listens 10,000 ports higher.
    """
    while True:
        port = RANDOM.randint(10_000, 22_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
