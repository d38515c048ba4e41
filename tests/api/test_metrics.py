"""The page /metrics: access and metrics."""

from typing import Any
from unittest.mock import Mock

import pytest
from django.db import connections
from django.http import HttpResponse
from django.test import Client
from prometheus_client import REGISTRY

from accounts.models import Account
from petstore.observability.instrumentation import count_in_flight
from petstore.observability.metrics import METHODS
from petstore.observability.sampler import ConnectionTracker
from tests.conftest import Api

DECISIONS = "petstore_quota_decisions_total"
DURATION = "petstore_http_request_duration_seconds"


def value(name: str, **labels: str) -> float:
    """Return a metric of this process; 0 if it is missing."""
    return REGISTRY.get_sample_value(name, labels) or 0


def test_metrics_are_shown_to_this_machine(client: Any, api: Api) -> None:
    api.get("/pets")
    page = client.get("/metrics", headers={"Host": "192.0.2.7:8000"})  # As Prometheus may send it.
    assert page.headers["Content-Type"].startswith("text/plain")
    assert 'petstore_http_requests_total{method="GET",route="/v1/pets",status="200"}' in page.text


def test_metrics_are_404_for_other_networks_and_with_their_own_port(client: Any, settings: Any) -> None:
    for address in ("192.0.2.1", "2001:db8::1", ""):
        assert client.get("/metrics", REMOTE_ADDR=address).status_code == 404
    settings.METRICS_ALLOW_FROM = ["10.0.0.0/8"]
    assert client.get("/metrics", REMOTE_ADDR="10.1.2.3").status_code == 200
    assert client.get("/metrics", REMOTE_ADDR="127.0.0.1").status_code == 404
    settings.METRICS_PORT = 9090
    assert client.get("/metrics", REMOTE_ADDR="10.1.2.3").status_code == 404


def test_requests_are_counted_and_timed_by_route_and_method(api: Api) -> None:
    labels = {"route": "/v1/pets/{petId}", "method": "GET"}
    counted = value("petstore_http_requests_total", status="404", **labels)
    timed, seconds = (value(f"{DURATION}_{name}", **labels) for name in ("count", "sum"))
    for number in range(1, 4):
        api.get(f"/pets/{number}")
    assert value("petstore_http_requests_total", status="404", **labels) == counted + 3
    assert value(f"{DURATION}_count", **labels) == timed + 3
    assert seconds < value(f"{DURATION}_sum", **labels) < seconds + 60


def request_series() -> set[tuple[str, str, str]]:
    (metric,) = (metric for metric in REGISTRY.collect() if metric.name == "petstore_http_requests")
    series = [sample.labels for sample in metric.samples if sample.name.endswith("_total")]
    return {(labels["route"], labels["method"], labels["status"]) for labels in series}


def test_unknown_paths_and_methods_share_one_series(db: None) -> None:
    before = request_series()
    client = Client(raise_request_exception=False)
    for number in range(5):
        client.generic(f"ODD{number}", f"/v1/pets/{number}")
        client.generic("GET", f"/odd/{number}/psk_live_{number}")
        client.generic("GET", f"/v1/odd/{number}?page={number}")
        client.generic(f"odd{number}", f"/admin/odd/{number}")
    added = request_series() - before
    assert {route for route, _, _ in added} <= {"unknown", "/v1/pets/{petId}"}
    assert {method for _, method, _ in added} <= METHODS | {"other"}
    assert len(added) <= 4


def test_request_is_in_flight_until_its_response(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    during = []

    def dispatch(*args: Any, **options: Any) -> HttpResponse:
        during.append(count_in_flight())
        return HttpResponse()

    monkeypatch.setattr("petstore.site.home.HomeView.dispatch", dispatch)
    before = count_in_flight()
    client.get("/")
    assert (before, during, count_in_flight()) == (0, [1], 0)


@pytest.mark.parametrize("counted_for", ["account", "address"])
def test_decisions_are_counted(issue: Any, anonymous_api: Api, settings: Any, counted_for: str) -> None:
    customer = Account.objects.create(name="Small", plan_id="enterprise", per_minute=2, per_day=100)
    settings.ANONYMOUS_PER_MINUTE = 2
    api = Api(issue(customer)[1]) if counted_for == "account" else anonymous_api
    outcomes = ("admitted", "rate_limit_exceeded")
    before = [value(DECISIONS, outcome=outcome, counted_for=counted_for) for outcome in outcomes]
    for _ in range(5):
        api.get("/pets")
    after = [value(DECISIONS, outcome=outcome, counted_for=counted_for) for outcome in outcomes]
    assert [now - then for then, now in zip(before, after, strict=True)] == [2, 3]


@pytest.mark.django_db
def test_open_connections_are_counted() -> None:
    tracker = ConnectionTracker()
    connection = connections.create_connection("default")
    tracker.add(connection)
    assert tracker.count()["default"] == 0  # Not open yet.
    connection.connect()
    assert tracker.count()["default"] == 1
    connection.close()
    tracker.add(Mock(alias="default", connection=Mock(closed=True)))  # As after an outage of PostgreSQL.
    assert tracker.count()["default"] == 0
