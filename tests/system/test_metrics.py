"""Each worker reports the metrics of all, and metrics can't crash a worker."""

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client import generate_latest

from petstore.observability.metrics_files import PREFIX, Supervisor, create_metrics_folder, lock
from petstore.observability.metrics_port import MultiprocessRegistry, serve_metrics
from tests.support.live import ROOT, Service, live_service
from tests.support.packages import python
from tests.support.servers import free_port, wait_until

BLOCK = 512  # Bytes; the unit of st_blocks (stat(2)).
HEALTH_CHECKS = 'petstore_http_requests_total{method="GET",route="/healthz"'
ORDER_LISTS = 'petstore_http_request_duration_seconds_count{method="GET",route="/v1/store/orders"}'


def test_metric_files_are_allocated_at_the_start(service: Service) -> None:
    """Writing to a hole of a memory-mapped file on a full disk is a bus error."""
    for path in ("/", "/docs", "/nothing", "/v1/pets"):
        for method in ("GET", "POST", "PUT", "BREW"):
            httpx.request(method, f"{service.url}{path}")
    files = list(Path(service.environment["METRICS_DIR"]).glob("*/*.db"))
    assert files
    for file in files:
        status = file.stat()
        assert status.st_blocks * BLOCK >= status.st_size, f"{file.name} has holes."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The metrics folder of two workers that have died."""
    folder = tmp_path_factory.mktemp("metrics")
    for slot in range(2):
        run_worker(folder, slot)
    return folder


def run_worker(folder: Path, slot: int) -> None:
    """Run a worker that counts three bans."""
    program = (
        f"from petstore.observability import metrics_files; metrics_files.Supervisor.slot = {slot}; "
        "metrics_files.preallocate_metrics_files(); "
        "import django; django.setup(); from petstore.observability.metrics import *; "
        "BANS.inc(3); WORKERS.set(1)"
    )
    variables = {"PROMETHEUS_MULTIPROC_DIR": str(folder), "DJANGO_SETTINGS_MODULE": "petstore.settings"}
    subprocess.run([python(), "-c", program], cwd=ROOT, env=os.environ | variables, check=True)


def read_folder(folder: Path) -> str:
    return generate_latest(MultiprocessRegistry(str(folder))).decode()


def test_next_worker_continues_the_counts_of_one_that_died_but_not_its_state(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(folder))
    assert "petstore_bans_total 6.0" in read_folder(folder)
    assert "petstore_workers 2.0" in read_folder(folder)
    assert [Supervisor.take_slot() for _ in range(2)] == [0, 1]
    for slot in range(2):
        Supervisor.release_slot(slot)
    assert "petstore_bans_total 6.0" in read_folder(folder)
    assert "petstore_workers " not in read_folder(folder)
    run_worker(folder, slot=1)
    assert "petstore_bans_total 9.0" in read_folder(folder)
    assert "petstore_workers 1.0" in read_folder(folder)


def wait_for_workers(service: Service, *, instead_of: list[int]) -> None:
    """Wait until as many new workers serve."""

    def are_replaced() -> bool:
        workers = service.processes()[1:]
        return len(workers) == len(instead_of) and not set(instead_of) & set(workers)

    wait_until(are_replaced)


def read_metric(service: Service, start: str) -> float:
    """Return the sum of the series whose lines start with this."""
    lines = [
        line for line in httpx.get(f"{service.url}/metrics").text.splitlines() if line.startswith(start)
    ]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Service]:
    """A separate service with two workers."""
    with live_service(tmp_path, workers=2, METRICS_DIR=str(tmp_path)) as service:
        yield service


def test_reloads_and_killed_workers_leave_no_files(pair: Service) -> None:
    """Each SIGHUP would otherwise use as much space as the workers."""
    for _ in range(20):
        httpx.get(f"{pair.url}/healthz")
    before = read_metric(pair, HEALTH_CHECKS)
    assert before >= 20
    assert read_metric(pair, "petstore_workers_configured ") == 2
    assert read_metric(pair, "petstore_worker_exits_total ") == 0
    started = read_metric(pair, "petstore_start_time_seconds ")
    assert time.time() - 60 < started < time.time()

    # Before the reload: the service exits if a worker dies within six seconds of its replacement's start.
    os.kill(pair.processes()[1], signal.SIGKILL)
    wait_until(lambda: read_metric(pair, "petstore_worker_exits_total ") == 1)
    wait_until(lambda: len(pair.processes()) == 3)
    wait_until(lambda: read_metric(pair, "petstore_workers ") == 2)

    assert pair.process is not None
    workers = pair.processes()[1:]
    pair.process.send_signal(signal.SIGHUP)
    wait_for_workers(pair, instead_of=workers)
    assert read_metric(pair, "petstore_worker_exits_total ") == 1

    assert read_metric(pair, HEALTH_CHECKS) >= before
    assert read_metric(pair, "petstore_start_time_seconds ") == started
    wait_until(lambda: count_files(pair, "gauge_livesum") == 2)
    assert count_files(pair, "counter") <= 3  # Workers are replaced one after another.


def count_files(service: Service, kind: str) -> int:
    return len(list(Path(service.environment["METRICS_DIR"]).glob(f"*/{kind}_*.db")))


def test_killed_service_leaves_its_folder_until_the_next_start(tmp_path: Path) -> None:
    abandoned, recent, used = (tmp_path / f"{PREFIX}{name}" for name in ("abandoned", "recent", "used"))
    for path in (abandoned, recent, used):
        path.mkdir()
        (path / "counter_1.db").touch()
        os.utime(path, (0, time.time() if path == recent else 0))
    with lock(used, fcntl.LOCK_SH), create_metrics_folder(str(tmp_path)) as own:
        assert set(tmp_path.iterdir()) == {recent, used, Path(own)}
    assert set(tmp_path.iterdir()) == {recent, used}


WORKER_ON_A_FULL_DISK = """
import os, resource, signal
folder = os.environ.pop("PROMETHEUS_MULTIPROC_DIR")
from petstore.observability import metrics_files
from petstore.observability.metrics_port import MultiprocessRegistry
from prometheus_client import generate_latest
resource.setrlimit(resource.RLIMIT_FSIZE, (600 * 1024, 600 * 1024))  # Room for counters only.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
import django; django.setup()
from petstore.observability.metrics import BANS  # The supervisor has imported it.
os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
metrics_files.preallocate_metrics_files()
assert metrics_files.lacks_space()
BANS.inc()
print(os.listdir(os.environ["PROMETHEUS_MULTIPROC_DIR"]))
print(generate_latest(MultiprocessRegistry(os.environ["PROMETHEUS_MULTIPROC_DIR"])).decode())
"""


def test_worker_on_a_full_disk_serves_without_metrics(tmp_path: Path) -> None:
    variables = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "petstore.settings"}
    done = subprocess.run(
        [python(), "-c", WORKER_ON_A_FULL_DISK],
        cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[]\n")
    assert "petstore_workers_configured 0.0" in done.stdout


def test_any_worker_reports_for_all(service: Service) -> None:
    key = service.issue_high_limit_key("Counted")
    before = read_metric(service, ORDER_LISTS)  # Of other tests of this service.
    service.send(key, 40, threads=8, path="/store/orders?limit=1")
    assert read_metric(service, ORDER_LISTS) == before + 40
    assert read_metric(service, "petstore_workers ") == 4
    assert read_metric(service, "petstore_build_info{") == 1


@pytest.mark.parametrize(
    ("allow_from", "path", "status"),
    [
        (["127.0.0.0/8"], "/metrics", 200),
        (["10.0.0.0/8", "::1/128"], "/metrics", 404),
        (["127.0.0.0/8"], "/", 404),
        (["127.0.0.0/8"], "/metrics/", 404),
    ],
)
def test_separate_port_serves_allowed_networks(
    folder: Path, monkeypatch: pytest.MonkeyPatch, allow_from: list[str], path: str, status: int
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(folder))
    server = serve_metrics("127.0.0.1", free_port(), allow_from)
    try:
        host = f"http://127.0.0.1:{server.server_port}"
        response = httpx.get(host + path, headers={"X-Forwarded-For": "10.0.0.1"})
    finally:
        server.shutdown()
        server.server_close()
    assert response.status_code == status
    assert ("petstore_bans_total" in response.text) == (status == 200)
