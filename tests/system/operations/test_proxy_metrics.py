"""The deployed proxy counts and logs what it rejects, and reports a backend as empty only if it is."""

import re
import threading
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

import httpx
import yaml

from tests.support.live import ROOT
from tests.support.servers import wait_until
from tests.support.skips import needs_program
from tests.system.operations import proxy
from tests.system.operations.proxy import read_metric
from tests.system.operations.test_proxy import ask, proxied, rejections_in

pytestmark = needs_program(proxy.program(), "haproxy")
LOGGED = 10  # Rejections a second.
STABLE_SECONDS = 4  # Enough for two failed checks.


def running(
    folder: Path, changes: proxy.Changes, *, ready: bool = True
) -> AbstractContextManager[tuple[int, int]]:
    """Yield the ports of the proxy and of its metrics, in front of two instances that wait, or of none."""
    return proxied(folder, changes, threading.Event(), ready=ready)


def test_rejections_of_a_client_above_its_limit_are_counted_and_some_are_logged(tmp_path: Path) -> None:
    changes = {"gpc0_rate ge 5000": "gpc0_rate ge 3"}
    with running(tmp_path, changes, ready=False) as (port, metrics_port), httpx.Client() as client:
        statuses = [client.get(f"http://127.0.0.1:{port}/v1/pets").status_code for _ in range(100)]
        assert statuses == [503] * 3 + [429] * 97
        assert read_metric(metrics_port, "haproxy_frontend_requests_denied_total", "public") == 97
        log = tmp_path / "haproxy.log"
        wait_until(lambda: rejections_in(log, 429) >= LOGGED)
        assert rejections_in(log, 429) < 97


def test_metrics_are_readable_while_clients_use_all_connections_but_not_by_the_public(
    tmp_path: Path,
) -> None:
    changes = {"maxconn 4000": "maxconn 30"}
    with running(tmp_path, changes) as (port, metrics_port), ExitStack() as stack:
        assert httpx.get(f"http://127.0.0.1:{metrics_port}/").status_code == 404
        assert httpx.get(f"http://127.0.0.1:{port}/metrics").status_code == 404
        for _ in range(40):
            stack.enter_context(ask(port, b""))
        wait_until(lambda: read_metric(metrics_port, "haproxy_frontend_current_sessions", "public") == 30)
        assert read_metric(metrics_port, "haproxy_frontend_limit_sessions", "public") == 30


def has_been_stable(metrics_port: int, name: str) -> bool:
    changed = read_metric(metrics_port, "haproxy_backend_check_last_change_seconds", name)
    return changed >= STABLE_SECONDS


def test_backend_is_reported_as_empty_only_without_instances_and_alerts_use_existing_metrics(
    tmp_path: Path,
) -> None:
    """Regression: "without_database has no server available" was reported at each healthy start."""
    folders = {ready: tmp_path / str(ready) for ready in (True, False)}
    with ExitStack() as stack:
        ports = {}
        for ready, folder in folders.items():
            folder.mkdir()
            _, ports[ready] = stack.enter_context(running(folder, {}, ready=ready))
        for ready, metrics_port in ports.items():
            for name in ("instances", "without_database"):
                wait_until(partial(has_been_stable, metrics_port, name))
                active = read_metric(metrics_port, "haproxy_backend_active_servers", name)
                assert (active > 0) == ready
        for name, proxy_name in find_metrics_of_alerts():
            read_metric(ports[False], name, proxy_name)
    for ready, folder in folders.items():
        log = (folder / "haproxy.log").read_text()
        assert ("has no server available" in log) is not ready


def find_metrics_of_alerts() -> list[tuple[str, str | None]]:
    """Return the name and the proxy of each metric that an alert uses."""
    groups = yaml.safe_load((ROOT / "deploy/prometheus/proxy_alerts.yaml").read_text())["groups"]
    queries = " ".join(rule["expr"] for group in groups for rule in group["rules"])
    used = re.findall(r'(haproxy_\w+)\{job="petstore-proxy"(?:, proxy="(\w+)")?\}', queries)
    assert len(used) == queries.count("haproxy_")
    return [(name, proxy_name or None) for name, proxy_name in used]
