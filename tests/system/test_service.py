"""Background work of the service, and its pages while something is unavailable."""

import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.api.test_logs import get_secret
from tests.api.test_pages import PAGES
from tests.support.live import Service, live_service, stopped_service
from tests.support.servers import wait_until


def test_service_flushes_usage_by_itself(service: Service) -> None:
    script = (
        "from inventory.models import StockCount;print(StockCount.objects.get().counted_at is not None)"
    )
    wait_until(lambda: service.manage("shell", "-v", "0", "-c", script).strip() == "True")


def test_workers_sample_each_minute_once(service: Service) -> None:
    script = "from petstore.health.models import StatusSample;print(*StatusSample.objects.values_list())"

    def read() -> list[tuple[str, ...]]:
        printed = service.manage("shell", "-v", "0", "-c", script)
        return re.findall(r"\((\d+), '(.*?)', '(.*?)'\)", printed)

    wait_until(lambda: bool(read()))
    samples = read()
    assert {sample[1:] for sample in samples} <= {("up", "up"), ("up", "degraded")}
    assert int(samples[-1][0]) - int(samples[0][0]) == len(samples) - 1


def test_service_has_written_logs_and_usage_of_every_request_when_it_exits(tmp_path: Path) -> None:
    with live_service(tmp_path, workers=2) as service:
        issued = service.issue("Acme", "free")
        key = issued["key"]
        responses = service.send(key, 70, threads=4, path=f"/pets?limit=1&key={key}")
        service.stop()
        script = (
            "from accounts.models import DailyUsage;"
            f"usage = DailyUsage.objects.get(key__public_id='{issued['id']}');"
            "print(usage.admitted, usage.rejected)"
        )
        assert service.manage("shell", "-v", "0", "-c", script).split() == ["60", "10"]
    written = (tmp_path / "serve.log").read_text().splitlines()
    entries = [json.loads(line) for line in written if line.startswith("{")]
    ids = {line["request_id"] for line in entries if line.get("route") == "/v1/pets"}
    assert ids == {response.headers["X-Request-Id"] for response in responses}
    assert not any(get_secret(key) in line for line in written)


def test_pages_are_served_while_the_database_is_down(tmp_path: Path) -> None:
    url = "postgresql://nobody@127.0.0.1:1/nothing"
    service = stopped_service(tmp_path, url, ANONYMOUS_PER_MINUTE="300")
    service.start(1)
    try:
        page = httpx.get(service.url, timeout=30)
        assert page.status_code == 200
        assert "The service can't serve requests at the moment." in page.text
        assert "<table" not in page.text
        assert httpx.get(f"{service.url}/readyz", timeout=30).status_code == 503
        for path in PAGES[1:-1]:
            assert httpx.get(service.url + path, timeout=30).status_code == 200
        malformed = {"Authorization": "Bearer psk_live_x"}
        response = httpx.get(f"{service.url}/v1/pets", headers=malformed, timeout=30)
        assert (response.status_code, response.json()["code"]) == (401, "invalid_api_key")
        assert response.headers["X-RateLimit-Remaining"] == "299"  # D16, D25
        with httpx.Client(base_url=service.url, timeout=30) as browser:
            browser.get("/account/login/")
            token = {"csrfmiddlewaretoken": browser.cookies["csrftoken"]}
            rejected = browser.post("/account/login/", data=token | {"login": "ann", "password": "guess"})
            assert rejected.is_server_error  # Signing in and its counters need the database.
            assert "sessionid" not in browser.cookies
    finally:
        service.stop()


def test_workers_and_instances_of_a_machine_admit_exactly_the_anonymous_limit(tmp_path: Path) -> None:
    shared = {"COUNTERS_DIR": str(tmp_path / "counters"), "ANONYMOUS_PER_MINUTE": "100"}
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
    with (
        live_service(folders[0], workers=2, **shared) as one,
        live_service(folders[1], workers=1, **shared) as other,
    ):

        def send(number: int) -> int:
            return httpx.get(f"{(one, other)[number % 2].url}/v1/pets").status_code

        with ThreadPoolExecutor(16) as pool:
            statuses = list(pool.map(send, range(300)))
    assert Counter(statuses) == {401: 100, 429: 200}
