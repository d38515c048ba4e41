"""Each worker reports the metrics of all, and metrics can't crash a worker."""

import os
import subprocess
from pathlib import Path

import httpx
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from petstore.observability.metrics_port import MultiprocessRegistry, serve_metrics
from tests.support.live import ROOT, Service
from tests.support.packages import python
from tests.support.servers import free_port, wait_until

BLOCK = 512  # Bytes; the unit of st_blocks (stat(2)).


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
    """The metrics folder of a worker that has died."""
    folder = tmp_path_factory.mktemp("metrics")
    program = (
        "import django; django.setup(); from petstore.observability.metrics import *; "
        "BANS.inc(3); WORKERS.set(1); STORE_UP.labels('redis').set(0)"
    )
    variables = {"PROMETHEUS_MULTIPROC_DIR": str(folder), "DJANGO_SETTINGS_MODULE": "petstore.settings"}
    subprocess.run([python(), "-c", program], cwd=ROOT, env=os.environ | variables, check=True)
    return folder


def test_worker_that_died_keeps_its_counts_and_loses_its_state(folder: Path) -> None:
    text = generate_latest(MultiprocessRegistry(str(folder))).decode()
    assert "petstore_bans_total 3.0" in text
    assert "petstore_workers" not in text
    assert "petstore_quota_store_up" not in text


ORDERS_LABELS = {"route": "/v1/store/orders", "method": "GET"}


def test_any_worker_reports_for_all(service: Service) -> None:
    def read_metrics() -> dict[str, float]:
        # Other tests of this service may have sent other requests.
        page = httpx.get(f"{service.url}/metrics").text
        samples = (sample for family in text_string_to_metric_families(page) for sample in family.samples)
        return {
            sample.name: sample.value
            for sample in samples
            if all(sample.labels.get(name, value) == value for name, value in ORDERS_LABELS.items())
        }

    key = service.roomy_key("Counted")
    count = "petstore_http_request_duration_seconds_count"
    before = read_metrics().get(count, 0)
    service.send(key, 40, threads=8, path="/store/orders?limit=1")
    wait_until(lambda: read_metrics()[count] == before + 40)  # Each worker counts off the request path.
    metrics = read_metrics()
    assert metrics["petstore_workers"] == 4
    assert metrics["petstore_build_info"] == 1
    assert metrics["petstore_quota_store_up"] == 1


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
