"""The service as users run it: processes of `manage.py serve` with a database of their own."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg
from psycopg import sql

from tests.servers import free_port, redis_server

ROOT = Path(__file__).parent.parent
START_SECONDS = 30
STOP_SECONDS = 15


class Service:
    """A running service."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self.environment = environment
        self.folder = folder
        self.url = f"http://127.0.0.1:{environment['PORT']}"
        self.process: subprocess.Popen[bytes] | None = None

    def manage(self, *arguments: str) -> str:
        """Run a manage.py command and return what it prints."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def issue(self, account: str, plan: str = "business", *options: str) -> dict[str, Any]:
        """Issue a key; the answer of `issue_key --json`."""
        made = self.manage("issue_key", "--account", account, "--plan", plan, "--json", *options)
        return dict(json.loads(made))

    def roomy_key(self, account: str) -> str:
        """Issue a key whose limits no test reaches."""
        numbers = ("--per-minute", "1000000000", "--per-day", "1000000000")
        return str(self.issue(account, "enterprise", *numbers)["key"])

    def client(self, key: str, **options: Any) -> httpx.Client:
        """Return an HTTP client with the key."""
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=f"{self.url}/v1", headers=headers, timeout=30, **options)

    def send(
        self, key: str, requests: int, *, threads: int, path: str = "/pets?limit=1"
    ) -> list[httpx.Response]:
        """Send that many GETs from that many threads at once, each with a client of its own."""
        own = threading.local()
        clients = ExitStack()

        def open_client() -> None:
            own.client = clients.enter_context(self.client(key))

        def get(_: int) -> httpx.Response:
            response: httpx.Response = own.client.get(path)
            return response

        with clients, ThreadPoolExecutor(threads, initializer=open_client) as pool:
            return list(pool.map(get, range(requests)))

    def start(self, workers: int) -> None:
        """Serve, and return when requests are answered."""
        command = [sys.executable, "manage.py", "serve", "--workers", str(workers)]
        with (self.folder / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdout=log, stderr=subprocess.STDOUT
            )
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log()
            try:
                httpx.get(f"{self.url}/healthz", timeout=1).raise_for_status()
            except httpx.HTTPError:
                time.sleep(0.05)  # Waits for a start; no test passes by sleeping.
            else:
                return
        raise AssertionError(f"The service did not start:\n{self.log()}")

    def stop(self) -> None:
        """Stop, as an operator would."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def log(self) -> str:
        """Return what the service wrote."""
        return (self.folder / "serve.log").read_text(errors="replace")


@contextmanager
def own_database(folder: Path) -> Iterator[str]:
    """Make an empty database on the server that the tests run on; yield its URL, and drop it at the end."""
    url = os.environ["DATABASE_URL"]
    if url.startswith("sqlite"):
        yield f"sqlite:///{folder / 'live.sqlite3'}"
        return
    name = f"petstore_live_{os.getpid()}_{free_port()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def live_service(folder: Path, *, workers: int, **environment: str) -> Iterator[Service]:
    """Yield a migrated, running service; keyword arguments are environment variables.

    On PostgreSQL it has a Redis of its own, hence serves on event loops; on SQLite neither.
    """
    port = str(free_port())
    with ExitStack() as stack:
        url = stack.enter_context(own_database(folder))
        if "REDIS_URL" not in environment and not url.startswith("sqlite"):
            environment["REDIS_URL"] = stack.enter_context(redis_server(folder)).url
        own = {"PORT": port, "BASE_URL": f"http://127.0.0.1:{port}/v1", "DATABASE_URL": url}
        service = Service(os.environ | own | environment, folder)
        service.manage("migrate", "--verbosity", "0")
        try:
            service.start(workers)
            yield service
        finally:
            service.stop()
