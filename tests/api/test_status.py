"""The status page: readiness, failing and slow checks."""

import re
from typing import Any

import pytest
from django.test import Client, RequestFactory

from petstore.health import checks
from petstore.health.views import StatusView


def definitions(**options: Any) -> dict[str, str]:
    """Return the page's definitions by term."""
    view: Any = StatusView.as_view(**options)
    response = view(RequestFactory().get("/status"))
    page = " ".join(response.render().text.split())
    return {
        name: re.sub("<[^>]*>", "", text)
        for name, text in re.findall("<dt>(.*?)</dt> <dd>(.*?)</dd>", page)
    }


def test_page_reports_readiness(client: Client, db: None) -> None:
    page = client.get("/status").text
    assert "The service is ready." in page
    assert client.get("/").text.count('href="/status"') == 2


def test_page_names_unavailable_dependencies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "checks", {"database": None, "migrations": None})
    readiness = {"status": "unavailable", "database": "no answer", "migrations": "ok", "quota": "redis"}
    assert definitions(check_readiness=lambda: readiness)["Unavailable"] == "database"


def test_page_names_slow_dependencies(settings: Any) -> None:
    settings.REDIS_URL = "redis://localhost"
    terms = definitions(
        check_readiness=lambda: {"status": "ok", "quota": "database"}, find_slow_checks=lambda: ["database"]
    )
    assert terms["Slow"] == "database, counting requests"


def test_long_check_is_slow() -> None:
    check = checks.Check(lambda: "ok")
    check.start().result()
    assert check.last_duration < checks.SLOW_SECONDS
    assert checks.find_slow_checks({"database": check}) == []
    check.last_duration = checks.SLOW_SECONDS
    assert checks.find_slow_checks({"database": check}) == ["database"]


def test_ready_service_shows_only_the_time() -> None:
    terms = definitions(check_readiness=lambda: {"status": "ok"}, find_slow_checks=list)
    assert list(terms) == ["Last checked"]
