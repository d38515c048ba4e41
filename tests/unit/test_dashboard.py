"""Dashboard and alerts use exported metrics, and every alert has a runbook."""

import json
import re
from functools import cache
from importlib import import_module
from typing import Any

import pytest
import yaml
from django.urls import resolve
from prometheus_client import REGISTRY

from petstore.observability.metrics_port import SupervisorCollector
from tests.support.live import ROOT

DASHBOARD = json.loads((ROOT / "deploy/grafana/petstore.json").read_text())


def load_rules(name: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((ROOT / "deploy/prometheus" / name).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


SERVICE_RULES = load_rules("alerts.yaml")
RULES = SERVICE_RULES + load_rules("proxy_alerts.yaml")
RUNBOOKS = (ROOT / "docs/runbooks.md").read_text()
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
QUERIES += [
    variable["definition"] for variable in DASHBOARD["templating"]["list"] if "definition" in variable
]
QUERIES += [rule["expr"] for rule in SERVICE_RULES]
ADDED_BY_PROMETHEUS = {"job", "instance"}


@cache
def exposed() -> dict[str, set[str]]:
    """Return the labels of each exported series by name."""
    import_module("petstore.urls")
    import_module("petstore.db.replicas")  # Defines its own metrics.
    import_module("petstore.observability.log_writer")
    found: dict[str, set[str]] = {}
    for family in (*REGISTRY.collect(), *SupervisorCollector().collect()):
        collector = REGISTRY._names_to_collectors.get(family.name)
        labels = set(getattr(collector, "_labelnames", ()))
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}.get(
            family.type, [""]
        )
        for suffix in suffixes:
            found[family.name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_dashboard_and_alerts_use_exported_series(query: str) -> None:
    known = exposed()
    series = re.findall(r"\b(petstore_\w+)(?:\{([^}]*)\})?", query)
    assert series or query.startswith("up{")
    for name, selectors in series:
        assert name in known
        labels = set(re.findall(r"(\w+)\s*[=!]~?\"", selectors))
        grouped = {label for part in re.findall(r"by \(([^)]*)\)", query) for label in part.split(", ")}
        assert labels | grouped <= set().union(*(known[found] for found, _ in series)) | ADDED_BY_PROMETHEUS


def test_routes_of_the_queries_exist() -> None:
    patterns = {pattern for query in QUERIES for pattern in re.findall(r'route[=!]~?"([^"]+)"', query)}
    routes = {route for pattern in patterns - {"/v1/.+"} for route in pattern.split("|")}
    assert routes == {"/healthz", "/readyz", "/metrics"}
    assert all(resolve(route) for route in routes)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alert_has_summary_severity_and_runbook(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"page", "warning"}
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{rule['alert'].lower()}"


def test_alerts_and_runbooks_match() -> None:
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", RUNBOOKS, re.MULTILINE | re.DOTALL))
    assert sections.keys() == {rule["alert"] for rule in RULES}
    for section in sections.values():
        assert re.findall(r"^\*\*(\w+):\*\*", section, re.MULTILINE) == ["Means", "Check", "Do"]
