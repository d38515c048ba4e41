"""Graceful shutdown: SIGTERM on the production server loses no request."""

import json
import mmap
import os
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from errno import ECONNREFUSED
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connection
from granian.constants import Interfaces

from petstore.server import shutdown
from petstore.server.supervisor import DrainingServer
from tests.support.live import ROOT, STOP_SECONDS, Service, live_service
from tests.support.packages import python
from tests.support.servers import wait_until

PET = json.dumps({"name": "Slow", "categoryId": 1}).encode()


# From Python 3.14 on, this is the default on Linux. granian then spawns workers, which share no memory.
FORKSERVER_BY_DEFAULT = """
from multiprocessing import context

context._default_context._default_context = context._concrete_contexts["forkserver"]
"""


@pytest.fixture(params=["threads", "loop"])
def mode(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The settings of each serve mode in turn; with threads, workers are not forked by default."""
    if request.param == "threads":
        (tmp_path / "sitecustomize.py").write_text(FORKSERVER_BY_DEFAULT)
        return {"SERVE_MODE": "threads", "PYTHONPATH": str(tmp_path)}
    if connection.vendor != "postgresql":
        pytest.skip("The event loop needs PostgreSQL.")
    return {"SERVE_MODE": "loop"}


def started_post(service: Service, key: str) -> socket.socket:
    """Send a request up to its body, and wait until the application awaits the body."""
    sending = socket.create_connection(("127.0.0.1", int(service.environment["PORT"])), timeout=10)
    lines = (
        "POST /v1/pets HTTP/1.1", "Host: localhost", f"Authorization: Bearer {key}", "Expect: 100-continue",
        "Content-Type: application/json", f"Content-Length: {len(PET)}", "", "",
    )  # fmt: skip
    sending.sendall("\r\n".join(lines).encode())
    assert b" 100 " in sending.recv(4096)
    return sending


def is_closed(service: Service) -> bool:
    """Whether the port is closed."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(service.environment["PORT"]))) == ECONNREFUSED


def rejected_post(service: Service) -> socket.socket:
    """Send a request up to its body, without a key; wait until it is rejected and its body discarded."""
    sending = socket.create_connection(("127.0.0.1", int(service.environment["PORT"])), timeout=10)
    sending.sendall(b"POST /v1/pets HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert sending.recv(4096).startswith(b"HTTP/1.1 401 ")
    return sending


def is_draining(service: Service) -> bool:
    response = httpx.get(f"{service.url}/readyz")
    return (response.status_code, response.json()) == (503, {"status": "draining"})


def get_statuses_until_closed(service: Service, key: str) -> list[int]:
    """Send sequential requests on one connection until the server closes it; return their statuses."""
    statuses = []
    with closing(HTTPConnection("127.0.0.1", int(service.environment["PORT"]), timeout=10)) as client:
        while True:
            client.request("GET", "/v1/pets?limit=1", headers={"Authorization": f"Bearer {key}"})
            response = client.getresponse()
            response.read()
            statuses.append(response.status)
            if response.will_close:
                return statuses


def test_stopping_service_drains_then_closes_the_port_and_serves_open_requests(
    tmp_path: Path, mode: dict[str, str]
) -> None:
    """It waits for the body of a request with a key; without a key, it discards the body.

    While it drains, it is not ready, and closes each connection after a response. Missing bodies kill no
    worker.
    """
    with live_service(tmp_path, workers=2, DRAIN_SECONDS="2", **mode) as service:
        assert service.process is not None
        key = service.issue_high_limit_key("Stop")
        assert httpx.get(f"{service.url}/readyz").status_code == 200
        with (
            started_post(service, key) as sending,
            started_post(service, key),
            rejected_post(service),
            ThreadPoolExecutor(4) as pool,
        ):
            clients = [pool.submit(get_statuses_until_closed, service, key) for _ in range(4)]
            service.process.terminate()
            wait_until(lambda: is_draining(service))
            assert httpx.get(f"{service.url}/healthz").status_code == 200
            assert {status for client in clients for status in client.result()} == {200}
            wait_until(lambda: is_closed(service))
            sending.sendall(PET)
            assert sending.recv(4096).startswith(b"HTTP/1.1 201 ")
            assert service.process.wait(STOP_SECONDS) == 0
        assert "Slow" in service.manage("export_pets", "--format", "csv")
        assert "Killing" not in service.log()


def server(monkeypatch: pytest.MonkeyPatch, drain_seconds: int) -> DrainingServer:
    """A server that has not started to serve."""
    monkeypatch.setattr(shutdown, "_draining", mmap.mmap(-1, 1))
    return DrainingServer(
        "petstore.server.wsgi:application",
        interface=Interfaces.WSGI,
        drain_seconds=drain_seconds,
        announce=lambda: None,
        log_enabled=False,
    )


def test_second_signal_skips_draining(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = server(monkeypatch, 300)
    stopping.signal_handler_interrupt(signal.SIGTERM, None)
    assert shutdown.is_draining()
    assert not stopping.interrupt_signal
    stopping.signal_handler_interrupt(signal.SIGTERM, None)
    assert stopping.interrupt_signal


@pytest.mark.parametrize(("by", "drain_seconds"), [(signal.SIGINT, 300), (signal.SIGTERM, 0)])
def test_ctrl_c_and_a_drain_time_of_zero_stop_at_once(
    monkeypatch: pytest.MonkeyPatch, by: signal.Signals, drain_seconds: int
) -> None:
    stopping = server(monkeypatch, drain_seconds)
    stopping.signal_handler_interrupt(by, None)
    assert stopping.interrupt_signal
    assert not shutdown.is_draining()


def do_nothing(*_: object) -> None:
    """A stub of a worker's work."""


def test_exited_worker_is_not_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a busy machine the supervisor notices the exit late."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    reap = os.waitpid

    def reap_slowly(pid: int, options: int) -> tuple[int, int]:
        found = reap(pid, options)
        if found[0]:
            time.sleep(0.2)
        return found

    monkeypatch.setattr(os, "waitpid", reap_slowly)
    supervisor = server(monkeypatch, 0)
    for attribute in ("_ssp", "_shd", "_sso"):
        monkeypatch.setattr(supervisor, attribute, None, raising=False)
    worker: Any = supervisor._spawn_worker(0, do_nothing, do_nothing)
    worker.interrupt_by_parent = True
    worker.start()
    worker.join(STOP_SECONDS)
    assert not worker.is_alive()


STARTING = """
import os, signal, uvloop
from petstore.server import shutdown

shutdown.initialize_worker()
shutdown.block_sigterm()

loop = uvloop.new_event_loop()
loop.add_signal_handler(signal.SIGINT, loop.stop)
{before}
shutdown.handle_sigterm(loop)
{after}
loop.run_forever()
print("ended")
"""
SIGTERM = "os.kill(os.getpid(), signal.SIGTERM)"


@pytest.mark.parametrize(("before", "after"), [(SIGTERM, ""), ("", SIGTERM)], ids=["before", "after"])
def test_worker_stops_on_a_signal_between_the_handler_and_the_loop(before: str, after: str) -> None:
    done = subprocess.run(
        [python(), "-c", STARTING.format(before=before, after=after)],
        cwd=ROOT, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("ended\n", 0), done.stderr


REPEATED = """
import os, signal, uvloop
from petstore.server import shutdown

def send(*numbers):
    for number in numbers:
        os.kill(os.getpid(), number)

def stop():
    print("stopping")
    send(signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # As in a new worker.
loop = uvloop.new_event_loop()
loop.add_signal_handler(signal.SIGINT, stop)
loop.add_signal_handler(signal.SIGUSR1, loop.stop)
shutdown.handle_sigterm(loop)
loop.call_soon(send, signal.SIGTERM, signal.SIGTERM, signal.SIGINT)
loop.run_forever()
"""


def test_worker_calls_granians_handler_once_however_many_signals_it_gets() -> None:
    """At its third call, the handler would block for ever."""
    done = subprocess.run(
        [python(), "-c", REPEATED], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.stdout, done.returncode) == ("stopping\n", 0), done.stderr


SLOW = """
import multiprocessing, os, signal, uvloop
from multiprocessing.util import Finalize
from petstore.server import shutdown

shutdown.STOP_SECONDS = 0.1

def serve():
    Finalize(None, print, ["written"], exitpriority=0)
    loop = uvloop.new_event_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # granian waits for its connections.
    shutdown.handle_sigterm(loop)
    loop.call_soon(os.kill, os.getpid(), signal.SIGTERM)
    loop.run_until_complete(loop.create_future())

worker = multiprocessing.get_context("fork").Process(target=serve)
worker.start()
worker.join()
print(worker.exitcode)
"""


def test_worker_that_a_slow_client_keeps_from_stopping_writes_its_usage_and_exits() -> None:
    done = subprocess.run(
        [python(), "-c", SLOW], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout == "written\n0\n", done.stderr
