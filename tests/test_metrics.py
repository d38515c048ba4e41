"""The page /metrics, and who may see it."""

from typing import Any

import pytest

from tests.conftest import Api


def test_metrics_are_shown_to_this_machine(client: Any, api: Api) -> None:
    api.get("/pets")
    page = client.get("/metrics")
    assert page.headers["Content-Type"].startswith("text/plain")
    assert 'petstore_quota_decisions_total{outcome="admitted"}' in page.text


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1", ""])
def test_for_others_there_is_no_such_page(client: Any, address: str) -> None:
    assert client.get("/metrics", REMOTE_ADDR=address).status_code == 404


def test_networks_can_be_allowed(client: Any, settings: Any) -> None:
    settings.METRICS_ALLOW_FROM = ["10.0.0.0/8"]
    assert client.get("/metrics", REMOTE_ADDR="10.1.2.3").status_code == 200
    assert client.get("/metrics", REMOTE_ADDR="127.0.0.1").status_code == 404
