"""The status page: readiness, failing and slow checks."""

import re
from typing import Any

import pytest
from django.test import Client, RequestFactory

from petstore.health import checks
from petstore.health.views import Status


def definitions(**given: Any) -> dict[str, str]:
    """The page's definitions, by term."""
    view: Any = Status.as_view(**given)
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


def test_page_names_unavailable_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "checks", {"database": None, "migrations": None})
    parts = {"status": "unavailable", "database": "no answer", "migrations": "ok", "quota": "redis"}
    assert definitions(readiness=lambda: parts)["Unavailable"] == "database"


def test_page_names_slow_parts(settings: Any) -> None:
    settings.REDIS_URL = "redis://localhost"
    found = definitions(readiness=lambda: {"status": "ok", "quota": "database"}, slow=lambda: ["database"])
    assert found["Slow"] == "database, counting requests"


def test_long_check_is_slow() -> None:
    check = checks.Check(lambda: "ok")
    check.start().result()
    assert check.seconds < checks.SLOW_SECONDS
    assert checks.slow({"database": check}) == []
    check.seconds = checks.SLOW_SECONDS
    assert checks.slow({"database": check}) == ["database"]


def test_ready_service_shows_only_the_time() -> None:
    assert list(definitions(readiness=lambda: {"status": "ok"}, slow=list)) == ["Last checked"]
