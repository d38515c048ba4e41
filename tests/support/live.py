"""The service as users run it: processes of `manage.py serve` with a database of their own."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from petstore.observability.healthcheck import is_alive
from tests.support.migrated import migrated_database, temporary_database
from tests.support.packages import python
from tests.support.preloaded import CommandRunner, Forked
from tests.support.servers import START_SECONDS, free_port, is_running

ROOT = Path(__file__).parents[2]
STOP_SECONDS = 15


def run_manage(
    environment: dict[str, str], *arguments: str | bytes, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a manage.py command as a process of its own."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [python(), "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, **streams | options)


def manage(environment: dict[str, str], *arguments: str) -> str:
    """Run a manage.py command and return what it prints."""
    done = run_manage(environment, *arguments)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


class Service:
    """A running service."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self.environment = environment
        self.folder = folder
        self.root = ROOT  # The code that is served.
        self.url = f"http://127.0.0.1:{environment['PORT']}"
        self.process: subprocess.Popen[bytes] | Forked | None = None
        self.commands = CommandRunner(environment)

    def manage(self, *arguments: str) -> str:
        """Run a manage.py command and return what it prints."""
        return self.commands.manage(*arguments)

    def issue(self, account: str, plan: str = "business", *options: str) -> dict[str, Any]:
        """The result of `issue_key --json`."""
        output = self.manage("issue_key", "--account", account, "--plan", plan, "--json", *options)
        return dict(json.loads(output))

    def issue_high_limit_key(self, account: str) -> str:
        """Issue a key with limits that no test reaches."""
        numbers = ("--per-minute", "1000000000", "--per-day", "1000000000")
        return str(self.issue(account, "enterprise", *numbers)["key"])

    def client(self, key: str, **options: Any) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=f"{self.url}/v1", headers=headers, timeout=30, **options)

    def send(
        self, key: str, requests: int, *, threads: int, path: str = "/pets?limit=1"
    ) -> list[httpx.Response]:
        """Send GETs from several threads concurrently, each with its own client."""
        own = threading.local()
        clients = ExitStack()

        def open_client() -> None:
            own.client = clients.enter_context(self.client(key))

        def get(_: int) -> httpx.Response:
            response: httpx.Response = own.client.get(path)
            return response

        with clients, ThreadPoolExecutor(threads, initializer=open_client) as pool:
            return list(pool.map(get, range(requests)))

    def start(self, workers: int, *, timeout: float = START_SECONDS) -> None:
        """Start, and wait until requests are served, for at most this many seconds."""
        command = ["serve", "--workers", str(workers)]
        with (self.folder / "serve.log").open("ab") as log:
            if self.root == ROOT and self.environment.get("PYTHONPATH") == os.environ.get("PYTHONPATH"):
                self.process = self.commands.start(*command, stdout=log, stderr=log)
            else:
                self.process = subprocess.Popen(
                    [python(), "manage.py", *command],
                    cwd=self.root, env=self.environment, stdout=log, stderr=log,
                )  # fmt: skip
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log()
            if is_alive(int(self.environment["PORT"])):
                return
            time.sleep(0.05)  # Polls for the start; no test depends on the sleep.
        raise AssertionError(f"The service did not start:\n{self.log()}")

    def stop(self) -> int:
        """Stop like an operator, with SIGTERM; the exit status."""
        self.commands.close()
        status = 0
        if self.process is not None:
            self.process.terminate()
            try:
                status = self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                status = self.process.wait()
            self.process = None
        return status

    def processes(self) -> list[int]:
        """The ids of the started process and of its living workers, oldest first."""
        assert self.process is not None
        parent = self.process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return [parent, *(int(pid) for pid in children if is_running(pid))]

    def log(self) -> str:
        return (self.folder / "serve.log").read_text(errors="replace")


def stopped_service(folder: Path, url: str, **environment: str) -> Service:
    """A service on this database that is not started; keyword arguments are environment variables."""
    port = str(free_port())
    own = {"PORT": port, "BASE_URL": f"http://127.0.0.1:{port}/v1", "DATABASE_URL": url}
    counters = {"COUNTERS_DIR": str(folder / "counters")}  # Not shared with other tests.
    return Service(os.environ | own | counters | environment, folder)


@contextmanager
def live_service(folder: Path, *, workers: int, **environment: str) -> Iterator[Service]:
    """Yield a migrated, running service; keyword arguments are environment variables.

    On PostgreSQL it serves on event loops.
    """
    with ExitStack() as stack:
        url = environment.get("DATABASE_URL")
        url = url or stack.enter_context(temporary_database(folder, copy_of=migrated_database()))
        service = stopped_service(folder, **environment | {"url": url})
        try:
            service.start(workers)
            yield service
        finally:
            service.stop()
