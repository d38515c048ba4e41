"""Settings of what operators see, traces, the dashboard, alerts and their runbooks."""

import json
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import yaml
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.urls import resolve
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import REGISTRY

from petstore.observability.tracing import TracingMiddleware
from tests.api.test_logs import secret_of
from tests.conftest import Api
from tests.support.live import ROOT
from tests.unit.test_settings import run, setting

COLLECTOR = "http://127.0.0.1:4318"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LOG_FORMAT", "xml"),
        ("LOG_LEVEL", "INFO"),
        ("LOG_LEVEL", "loud"),
        ("ACCESS_LOG", "some"),
        ("METRICS_PORT", "65536"),
        ("METRICS_PORT", "http"),
    ],
)
def test_wrong_value_stops_the_start_with_one_sentence_that_names_it(name: str, value: str) -> None:
    done = run("manage.py", "check", **{name: value})
    assert done.returncode == 1
    assert done.stderr.startswith(f"petstore: {name} must be ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("variables", "expression", "read"),
    [
        ({"LOG_FORMAT": ""}, "s.LOG_FORMAT", "json"),
        ({"LOG_FORMAT": "", "DEBUG": "1"}, "s.LOG_FORMAT", "text"),
        ({"LOG_FORMAT": "json", "DEBUG": "1"}, "s.LOG_FORMAT", "json"),
        ({"LOG_LEVEL": "warning"}, "s.LOGGING['root']['level']", "WARNING"),
        ({"ACCESS_LOG": ""}, "s.ACCESS_LOG", "True"),
        ({"METRICS_PORT": ""}, "s.METRICS_PORT", "0"),
    ],
)
def test_right_value_is_read(variables: dict[str, str], expression: str, read: str) -> None:
    assert setting(expression, **variables) == read


# --- Traces --------------------------------------------------------------------------------------


WITHOUT_PACKAGES = "import sys; sys.modules['opentelemetry'] = None; "


def test_without_a_collector_the_service_needs_nothing_of_opentelemetry() -> None:
    done = run("-c", WITHOUT_PACKAGES + "import petstore.serving.wsgi")
    assert done.returncode == 0, done.stderr


def test_missing_packages_stop_the_start_with_a_sentence_that_says_what_to_install() -> None:
    program = WITHOUT_PACKAGES + "import petstore.settings"
    done = run("-c", program, OTEL_EXPORTER_OTLP_ENDPOINT=COLLECTOR)
    assert done.returncode == 1
    assert "OTEL_EXPORTER_OTLP_ENDPOINT is set, but opentelemetry" in done.stderr
    assert "pip install --require-hashes -r requirements-otel.txt" in done.stderr


class Spans:
    """What a client's requests left in memory."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self.exporter = exporter

    def take(self) -> ReadableSpan:
        """Return the only span since the last one was taken."""
        (span,) = self.exporter.get_finished_spans()
        self.exporter.clear()
        return span


@pytest.fixture
def spans(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """Spans that arrive, for clients that are made from now on."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    settings.OTEL_EXPORTER_OTLP_ENDPOINT = COLLECTOR
    yield Spans(exporter)
    provider.shutdown()


def test_request_has_a_span(spans: Spans, key: Any) -> None:
    Api(key.text).get("/pets/1?limit=3", X_Request_Id="mine")
    span = spans.take()
    assert (span.name, span.kind) == ("GET /v1/pets/{petId}", SpanKind.SERVER)
    assert span.attributes == {
        "http.request.method": "GET",
        "http.route": "/v1/pets/{petId}",
        "http.response.status_code": 404,
        "petstore.request_id": "mine",
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.parent is None


def test_span_continues_the_callers_trace(spans: Spans, key: Any) -> None:
    Api(key.text).get("/pets", traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
    span = spans.take()
    assert span.parent is not None
    assert f"{span.context.trace_id:x}" == "a" * 32
    assert f"{span.parent.span_id:x}" == "b" * 16


@pytest.mark.parametrize("traceparent", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ü"])
def test_nonsense_from_the_caller_begins_a_trace(spans: Spans, key: Any, traceparent: str) -> None:
    assert Api(key.text).get("/pets", traceparent=traceparent).status_code == 200
    assert spans.take().parent is None


def test_failure_marks_the_span(spans: Spans, key: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inventory.views.PetViewSet.list", None)
    Api(key.text).get("/pets")
    assert spans.take().status.status_code is StatusCode.ERROR


def test_span_has_no_key_in_it(spans: Spans, key: Any) -> None:
    Api(key.text).get(f"/pets/{key.text}?key={key.text}", X_Request_Id=key.text)
    assert secret_of(key.text) not in spans.take().to_json()


def test_any_host_is_served_with_traces_too(spans: Spans, key: Any) -> None:
    headers = {"Authorization": f"Bearer {key.text}", "Host": "elsewhere.example"}
    assert Client().get("/v1/pets", headers=headers).status_code == 200
    assert spans.take().name == "GET /v1/pets"


def test_work_of_a_request_happens_within_its_span(spans: Spans) -> None:
    seen = []

    def look(request: HttpRequest) -> HttpResponse:
        seen.append(trace.get_current_span())
        return HttpResponse()

    request = RequestFactory().get("/", REQUEST_ID="mine")
    request.resolver_match = None
    TracingMiddleware(look)(request)
    assert [span.get_span_context() for span in seen] == [spans.take().context]


# --- The dashboard and the alerts ----------------------------------------------------------------

DASHBOARD = json.loads((ROOT / "deploy/grafana/petstore.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
RUNBOOKS = (ROOT / "docs/runbooks.md").read_text()
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
QUERIES += [
    variable["definition"] for variable in DASHBOARD["templating"]["list"] if "definition" in variable
]
QUERIES += [rule["expr"] for rule in RULES]
ADDED_BY_PROMETHEUS = {"job", "instance"}


def exposed() -> dict[str, set[str]]:
    """Return the labels of each series that the service exposes, by its name."""
    import_module("petstore.db.replicas")  # These define theirs where they are used.
    import_module("petstore.observability.output")
    found: dict[str, set[str]] = {}
    for family in REGISTRY.collect():
        collector = REGISTRY._names_to_collectors[family.name]
        labels = set(getattr(collector, "_labelnames", ()))
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}.get(
            family.type, [""]
        )
        for suffix in suffixes:
            found[family.name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_dashboard_and_alerts_ask_for_series_that_the_service_exposes(query: str) -> None:
    known = exposed()
    series = re.findall(r"\b(petstore_\w+)(?:\{([^}]*)\})?", query)
    assert series or query.startswith("up{")
    for name, selectors in series:
        assert name in known
        labels = set(re.findall(r"(\w+)\s*[=!]~?\"", selectors))
        grouped = {label for part in re.findall(r"by \(([^)]*)\)", query) for label in part.split(", ")}
        assert labels | grouped <= set().union(*(known[found] for found, _ in series)) | ADDED_BY_PROMETHEUS


def test_routes_of_the_queries_exist() -> None:
    routes = {route for query in QUERIES for route in re.findall(r'route!?="([^"]+)"', query)}
    assert routes == {"/readyz"}
    assert all(resolve(route) for route in routes)


def test_every_metric_of_ours_is_on_the_dashboard() -> None:
    shown = {name for query in QUERIES for name in re.findall(r"petstore_\w+", query)}
    ours = {name for name in exposed() if name.startswith("petstore_")}
    assert {name.removesuffix("_count").removesuffix("_sum") for name in ours - shown} == {
        "petstore_http_request_duration_seconds"
    }


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alert_says_what_happened_how_bad_it_is_and_where_its_runbook_is(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"page", "warning"}
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{rule['alert'].lower()}"


def test_every_alert_has_its_runbook_and_every_runbook_its_alert() -> None:
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", RUNBOOKS, re.MULTILINE | re.DOTALL))
    assert sections.keys() == {rule["alert"] for rule in RULES}
    for section in sections.values():
        assert re.findall(r"^\*\*(\w+):\*\*", section, re.MULTILINE) == ["Means", "Look", "Do", "Over"]


def test_panels_of_the_dashboard_have_places_and_ids_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
