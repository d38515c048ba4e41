"""The deployed proxy counts and logs what it rejects, and reports a backend as empty only if it is."""

import re
import threading
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.live import ROOT
from tests.support.servers import wait_until
from tests.support.skips import needs_program
from tests.system.operations import proxy
from tests.system.operations.test_proxy import (
    EXCESS,
    INSTANCE_SLOTS,
    QUEUE,
    TOLERANCE,
    ask,
    excess_is_rejected,
    proxied,
)

pytestmark = needs_program(proxy.program(), "haproxy")
LOGGED = 10  # Rejections a second.
STABLE_SECONDS = 4  # Enough for two failed checks.


def running(
    folder: Path, changes: proxy.Changes, *, ready: bool = True
) -> AbstractContextManager[tuple[int, int]]:
    """Yield the ports of the proxy and of its metrics, in front of two instances that wait, or of none."""
    return proxied(folder, changes, threading.Event(), ready=ready)


def read(metrics_port: int, name: str, proxy_name: str | None) -> float:
    """The value of a metric of the process, a frontend or a backend."""
    text = httpx.get(f"http://127.0.0.1:{metrics_port}/metrics").text
    return next(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and sample.labels.get("proxy") == proxy_name
    )


def rejections_in(log: Path, status: int) -> int:
    return len(re.findall(rf" public \S+ \S+ {status} .* PR-- ", log.read_text()))


def test_rejections_of_an_overloaded_service_are_counted_and_some_are_logged(tmp_path: Path) -> None:
    with running(tmp_path, proxy.LONG_QUEUE) as (port, metrics_port), ExitStack() as stack:
        connections = [stack.enter_context(ask(port)) for _ in range(2 * INSTANCE_SLOTS + QUEUE + EXCESS)]
        wait_until(lambda: excess_is_rejected(connections))
        counted = read(metrics_port, "haproxy_backend_requests_denied_total", "overloaded")
        assert EXCESS - TOLERANCE <= counted <= EXCESS
        log = tmp_path / "haproxy.log"
        wait_until(lambda: rejections_in(log, 503) >= 1)
        assert rejections_in(log, 503) < EXCESS


def test_rejections_of_a_client_above_its_limit_are_counted_and_some_are_logged(tmp_path: Path) -> None:
    changes = {"gpc0_rate ge 5000": "gpc0_rate ge 3"}
    with running(tmp_path, changes, ready=False) as (port, metrics_port), httpx.Client() as client:
        statuses = [client.get(f"http://127.0.0.1:{port}/v1/pets").status_code for _ in range(100)]
        assert statuses == [503] * 3 + [429] * 97
        assert read(metrics_port, "haproxy_frontend_requests_denied_total", "public") == 97
        log = tmp_path / "haproxy.log"
        wait_until(lambda: rejections_in(log, 429) >= LOGGED)
        assert rejections_in(log, 429) < 97


def test_metrics_are_readable_while_clients_use_all_connections(tmp_path: Path) -> None:
    changes = {"maxconn 4000": "maxconn 30"}
    with running(tmp_path, changes) as (port, metrics_port), ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(ask(port, b""))
        wait_until(lambda: read(metrics_port, "haproxy_frontend_current_sessions", "public") == 30)
        assert read(metrics_port, "haproxy_frontend_limit_sessions", "public") == 30


def test_metrics_are_not_served_to_the_public(tmp_path: Path) -> None:
    with running(tmp_path, {}) as (port, metrics_port):
        assert httpx.get(f"http://127.0.0.1:{metrics_port}/").status_code == 404
        assert httpx.get(f"http://127.0.0.1:{port}/metrics").status_code == 404


def has_been_stable(metrics_port: int, name: str) -> bool:
    return read(metrics_port, "haproxy_backend_check_last_change_seconds", name) >= STABLE_SECONDS


@pytest.mark.parametrize("ready", [True, False])
def test_backend_is_reported_as_empty_only_without_instances(tmp_path: Path, ready: bool) -> None:
    """Regression: "without_database has no server available" was reported at each healthy start."""
    with running(tmp_path, {}, ready=ready) as (_, metrics_port):
        for name in ("instances", "without_database"):
            wait_until(partial(has_been_stable, metrics_port, name))
            assert (read(metrics_port, "haproxy_backend_active_servers", name) > 0) == ready
        log = (tmp_path / "haproxy.log").read_text()
    assert ("has no server available" in log) is not ready


def test_alerts_use_metrics_that_the_proxy_has(tmp_path: Path) -> None:
    groups = yaml.safe_load((ROOT / "deploy/prometheus/proxy_alerts.yaml").read_text())["groups"]
    queries = " ".join(rule["expr"] for group in groups for rule in group["rules"])
    used = re.findall(r'(haproxy_\w+)\{job="petstore-proxy"(?:, proxy="(\w+)")?\}', queries)
    assert len(used) == queries.count("haproxy_")
    with running(tmp_path, {}, ready=False) as (_, metrics_port):
        for name, proxy_name in used:
            read(metrics_port, name, proxy_name or None)
