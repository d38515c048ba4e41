"""A Prometheus that scrapes two workers fires the right alert during an outage, and no others."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.support.live import ROOT, Service
from tests.support.migrated import migrated_server
from tests.support.postgresql import postgresql_server, programs
from tests.support.servers import free_port, wait_until
from tests.system.deployment.conftest import require
from tests.system.operations.machines import Customers, instance

SCRAPE_SECONDS = 2
# A rule that waits for several minutes waits for this long. The ranges of the rules stay as they are.
MAX_WAIT_SECONDS = 30
OUTAGE_SECONDS = 100  # Longer than the slowest rule waits, and than the range of PetstoreNotReady.


def write_configuration(folder: Path, target: str) -> Path:
    rules = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())
    for rule in rules["groups"][0]["rules"]:
        if rule.get("for", "").endswith("m"):
            rule["for"] = f"{MAX_WAIT_SECONDS}s"
    (folder / "alerts.yaml").write_text(yaml.safe_dump(rules))
    configuration = folder / "prometheus.yaml"
    scrapes = {"job_name": "petstore", "static_configs": [{"targets": [target]}]}
    intervals = {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": f"{SCRAPE_SECONDS}s"}
    configuration.write_text(
        yaml.safe_dump({"global": intervals, "rule_files": ["alerts.yaml"], "scrape_configs": [scrapes]})
    )
    return configuration


class Prometheus:
    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=f"{url}/api/v1", timeout=10)

    def query(self, expression: str) -> list[dict[str, Any]]:
        response = self._client.get("/query", params={"query": expression})
        return list(response.json()["data"]["result"])

    def get_firing(self) -> set[str]:
        return {series["metric"]["alertname"] for series in self.query('ALERTS{alertstate="firing"}')}

    def get_fired(self, seconds: float) -> set[str]:
        """Return the alerts that have fired within this time."""
        series = self.query(f'max_over_time(ALERTS{{alertstate="firing"}}[{round(seconds)}s])')
        return {each["metric"]["alertname"] for each in series}

    def close(self) -> None:
        self._client.close()


@contextmanager
def running_prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    port = free_port()
    command = [
        "prometheus", f"--config.file={write_configuration(folder, target)}",
        f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={folder / 'data'}",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    prometheus = Prometheus(f"http://127.0.0.1:{port}")
    try:
        wait_until(lambda: prometheus.query("up == 1") != [])
        yield prometheus
    finally:
        prometheus.close()
        process.terminate()
        process.wait()


def send_as_customer_and_proxy(client: httpx.Client) -> httpx.Response:
    root = str(client.base_url).removesuffix("/v1/")
    client.get(f"{root}/readyz")
    time.sleep(0.2)
    return client.get("/pets?limit=1")


def test_outage_fires_its_alert_and_no_others(tmp_path: Path) -> None:
    require([] if shutil.which("prometheus") else ["prometheus"])
    require([] if programs() else ["postgres"])
    metrics_port = free_port()
    with (
        postgresql_server(copy_of=migrated_server()) as postgresql,
        instance(tmp_path, postgresql.url, METRICS_PORT=str(metrics_port)) as service,
        running_prometheus(tmp_path, f"127.0.0.1:{metrics_port}") as prometheus,
        Customers(2, service.url, service.issue_high_limit_key("Steady"), send_as_customer_and_proxy),
    ):
        time.sleep(20)
        assert prometheus.get_fired(600) == set()

        began = time.monotonic()
        postgresql.stop()
        wait_until(lambda: prometheus.get_firing() == {"PetstoreDatabaseDown"}, 120)
        time.sleep(max(0, began + OUTAGE_SECONDS - time.monotonic()))
        postgresql.start()
        wait_until(lambda: prometheus.get_firing() == set())
        time.sleep(OUTAGE_SECONDS)  # Rules whose range reaches back to the outage do not fire later.
        assert prometheus.get_fired(time.monotonic() - began) == {"PetstoreDatabaseDown"}

        assert_outage_is_logged_once(service)


def assert_outage_is_logged_once(service: Service) -> None:
    lines = [json.loads(line) for line in service.log().splitlines() if line.startswith("{")]
    events = [
        line["event"]
        for line in lines
        if line["event"] != "request" and line["level"] in {"warning", "error"}
    ]
    assert sum("is unavailable" in event for event in events) <= 2, events  # Two workers.
    assert len(events) < 20, events
