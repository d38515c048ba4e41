"""`manage.py conformance` passes on the running service, and finds what a broken deployment does wrong."""

import http.client
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.management import CommandError, call_command

from petstore.conformance.run import CHECKS
from tests.live import Service
from tests.servers import free_port

PASSED, FAILED, SKIPPED, NOT_RUN = "passed", "failed", "skipped", "not run"


@dataclass
class Reply:
    """An answer on its way through the proxy, which may change it."""

    method: str
    path: str
    asked: dict[str, str]
    status: int
    headers: dict[str, str]
    body: bytes
    seen: dict[str, Any] = field(default_factory=dict)  # What a variant remembers from reply to reply.

    @property
    def rows(self) -> Any:
        return json.loads(self.body)

    def become(self, value: Any) -> None:
        self.body = json.dumps(value).encode()


Variant = Callable[[Reply], object]


@contextmanager
def broken(service: Service, variant: Variant) -> Iterator[str]:
    """Serve the service through a proxy that changes its answers; yield the base URL."""
    seen: dict[str, Any] = {}
    upstream = urlsplit(service.url)

    class Proxy(BaseHTTPRequestHandler):
        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection = http.client.HTTPConnection(upstream.netloc, timeout=30)
            connection.request(self.command, self.path, body or None, dict(self.headers))
            answer = connection.getresponse()
            own = f"http://{self.headers['Host']}/v1"
            headers = {name: value.replace(f"{service.url}/v1", own) for name, value in answer.getheaders()}
            reply = Reply(
                self.command, self.path, dict(self.headers), answer.status, headers, answer.read(), seen
            )
            connection.close()
            variant(reply)
            self.send_response_only(reply.status)
            for name, value in reply.headers.items():
                if name.lower() not in {"content-length", "connection", "transfer-encoding"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = pass_on

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def shop(service: Service) -> Service:
    """The service with pets in it."""
    service.manage("seed_demo", "--pets", "60")
    return service


@pytest.fixture(scope="module")
def key(shop: Service) -> str:
    """A key whose limits no test reaches."""
    return shop.roomy_key("Conformance")


def conformance(url: str, key: str, *options: str) -> tuple[int, dict[str, Any]]:
    """Run the command; return its exit status and its JSON."""
    out = StringIO()
    status: Any = 0
    try:
        call_command("conformance", url, "--key", key, "--json", *options, stdout=out, stderr=StringIO())
    except SystemExit as ended:
        status = ended.code
    return status, json.loads(out.getvalue())


def named(report: dict[str, Any], outcome: str) -> list[str]:
    return [check["name"] for check in report["checks"] if check["outcome"] == outcome]


# --- What passes ---------------------------------------------------------------------------------


def test_running_service_conforms_and_nothing_is_written(shop: Service, key: str) -> None:
    before = shop.manage("shell", "--no-imports", "-c", COUNT)
    status, report = conformance(f"{shop.url}/v1", key)
    assert (status, named(report, FAILED), named(report, NOT_RUN)) == (0, [], [])
    assert named(report, SKIPPED) == ["refusal_says_when_to_come_back"]
    assert report["requests"] <= 55
    assert report["left_behind"] == []
    assert shop.manage("shell", "--no-imports", "-c", COUNT) == before


COUNT = """
from inventory.models import Order, Pet
print(Pet.objects.count(), Order.objects.count())
"""


def test_writing_checks_leave_one_available_pet_and_say_so(shop: Service, key: str) -> None:
    pets, _ = map(int, shop.manage("shell", "--no-imports", "-c", COUNT).split())
    status, report = conformance(f"{shop.url}/v1", key, "--write")
    assert (status, named(report, FAILED), named(report, NOT_RUN)) == (0, [], [])
    assert set(named(report, PASSED)) >= {check.name for check in CHECKS if check.writes}
    (left,) = report["left_behind"]
    pet_id = int(re.findall(r"\d+", left)[0])
    with shop.client(key) as client:
        assert client.get(f"/pets/{pet_id}").json()["status"] == "available"
        assert client.get("/store/orders?status=placed").json() == []
    assert int(shop.manage("shell", "--no-imports", "-c", COUNT).split()[0]) == pets + 1


def test_healthy_service_passes_through_the_proxy_of_these_tests(shop: Service, key: str) -> None:
    with broken(shop, lambda reply: None) as url:
        status, report = conformance(url, key, "--write")
    assert (status, named(report, FAILED)) == (0, [])


# --- What fails ----------------------------------------------------------------------------------


def without(header: str, *, status: int = 0) -> Variant:
    """Drop a header, from answers of one status or of all."""

    def change(reply: Reply) -> None:
        if status in {0, reply.status}:
            reply.headers = {
                name: value for name, value in reply.headers.items() if name.lower() != header.lower()
            }

    return change


def remaining_never_falls(reply: Reply) -> None:
    for name, value in list(reply.headers.items()):
        if name.lower() == "x-ratelimit-remaining":
            reply.headers[name] = reply.seen.setdefault(reply.asked.get("Authorization", ""), value)
        if name.lower() == "ratelimit":
            least = reply.seen.setdefault("ratelimit" + reply.asked.get("Authorization", ""), value)
            reply.headers[name] = least


def remaining_contradicts(reply: Reply) -> None:
    for name, value in reply.headers.items():
        if name.lower() == "x-ratelimit-remaining":
            reply.headers[name] = str(int(value) + 7)


def reset_in_milliseconds(reply: Reply) -> None:
    for name, value in reply.headers.items():
        if name.lower() == "x-ratelimit-reset":
            reply.headers[name] = value + "000"


def unknown_pet_is_400(reply: Reply) -> None:
    if reply.status == 404 and b"pet_not_found" in reply.body:
        reply.status = 400


def plain_404(reply: Reply) -> None:
    if reply.status == 404:
        reply.become({"detail": "Not found."})


def link_from_the_host_header(reply: Reply) -> None:
    for name, value in reply.headers.items():
        if name.lower() == "link":
            reply.headers[name] = value.replace("127.0.0.1", "internal.example.com")


def page_repeats_a_row(reply: Reply) -> None:
    if reply.path.startswith("/v1/pets") and reply.method == "GET" and reply.status == 200:
        query = parse_qs(urlsplit(reply.path).query)
        rows = reply.rows
        if "cursor" in query:
            reply.become([reply.seen["last"], *rows[:-1]])
        elif isinstance(rows, list) and rows:
            reply.seen["last"] = rows[-1]


def last_page_names_a_next(reply: Reply) -> None:
    if reply.path.startswith("/v1/categories?") and "cursor" in reply.path and "Link" not in reply.headers:
        reply.headers["link"] = f'<http://{reply.asked["Host"]}{reply.path}>; rel="next"'


def etag_is_ignored(reply: Reply) -> None:
    if reply.status == 304:
        reply.status = 200
        reply.headers["content-type"] = "application/json"
        reply.body = b"[]"


def ids_are_strings(reply: Reply) -> None:
    if reply.path.startswith("/v1/pets") and reply.method == "GET" and reply.status == 200 and reply.body:
        rows = reply.rows
        for row in rows if isinstance(rows, list) else [rows]:
            row["id"] = str(row["id"])
        reply.become(rows)


def too_soon(reply: Reply) -> None:
    """Refuse the 20th request, without a Retry-After."""
    reply.seen["requests"] = reply.seen.get("requests", 0) + 1
    if reply.path.startswith("/v1/") and reply.seen["requests"] >= 20:
        reply.status = 429
        reply.headers["content-type"] = "application/json"
        reply.become({"code": "rate_limit_exceeded", "message": "Wait.", "status": 429})


def other_media_type_is_400(reply: Reply) -> None:
    if reply.status == 415:
        reply.status = 400
        reply.become({"code": "malformed_json", "message": "No JSON.", "status": 400})


def anyone_may_read(reply: Reply) -> None:
    if reply.status == 401:
        reply.status = 200
        reply.become([])


def replay_is_not_marked(reply: Reply) -> None:
    without("Idempotent-Replayed")(reply)


def sold_twice(reply: Reply) -> None:
    if reply.status == 409 and b"pet_not_available" in reply.body:
        reply.status = 201


VARIANTS: list[tuple[Variant, str]] = [
    (without("X-RateLimit-Remaining"), "every_answer_tells_the_quota"),
    (without("X-Request-Id"), "every_answer_has_an_id_of_its_own"),
    (without("WWW-Authenticate"), "missing_key_is_refused"),
    (without("Sunset"), "deprecation_is_announced"),
    (without("Allow"), "wrong_method_names_the_right_ones"),
    (without("Vary"), "caches_keep_callers_apart"),
    (remaining_never_falls, "every_request_costs"),
    (remaining_contradicts, "every_answer_tells_the_quota"),
    (reset_in_milliseconds, "every_answer_tells_the_quota"),
    (unknown_pet_is_400, "unknown_pet_is_not_found"),
    (plain_404, "unknown_path_is_an_error"),
    (link_from_the_host_header, "pages_follow_each_other"),
    (page_repeats_a_row, "pages_follow_each_other"),
    (last_page_names_a_next, "last_page_has_no_next"),
    (etag_is_ignored, "etag_saves_the_body"),
    (ids_are_strings, "lists_are_as_documented"),
    (too_soon, "refusal_says_when_to_come_back"),
    (other_media_type_is_400, "other_media_type_is_refused"),
    (anyone_may_read, "missing_key_is_refused"),
    (replay_is_not_marked, "animal_is_added_ordered_and_free_again"),
    (sold_twice, "animal_is_added_ordered_and_free_again"),
]


@pytest.mark.parametrize(("variant", "finds"), VARIANTS)
def test_broken_deployment_is_found(shop: Service, key: str, variant: Variant, finds: str) -> None:
    with broken(shop, variant) as url:
        status, report = conformance(url, key, "--write")
    assert finds in named(report, FAILED), report
    assert status == 1
    (found,) = [check for check in report["checks"] if check["name"] == finds]
    assert found["detail"]


# --- The quota is spared -------------------------------------------------------------------------


def test_nothing_more_is_sent_after_a_429(shop: Service, key: str) -> None:
    sent: list[str] = []

    def refuse(reply: Reply) -> None:
        too_soon(reply)
        if reply.status == 429:
            reply.headers["retry-after"] = "30"
            if "Authorization" in reply.asked and "0000" not in reply.asked["Authorization"]:
                sent.append(reply.path)

    with broken(shop, refuse) as url:
        _, report = conformance(url, key)
    assert len(sent) == 1
    assert len(named(report, NOT_RUN)) > 5


def test_run_stops_before_the_quota_is_used_up(shop: Service) -> None:
    numbers = ("--per-minute", "30", "--per-day", "1000")
    small = shop.issue("Small", "enterprise", *numbers)["key"]
    status, report = conformance(f"{shop.url}/v1", small, "--keep", "10")
    assert (status, named(report, FAILED)) == (2, [])
    assert report["requests"] == 20
    reasons = {check["detail"] for check in report["checks"] if check["outcome"] == NOT_RUN}
    assert "Only 10 requests are left of the quota. See --keep." in reasons


def test_free_plan_suffices_for_a_run_that_only_reads(shop: Service) -> None:
    status, _ = conformance(f"{shop.url}/v1", shop.issue("Free", "free")["key"])
    assert status == 0


def test_budget_ends_a_run(shop: Service, key: str) -> None:
    status, report = conformance(f"{shop.url}/v1", key, "--budget", "5")
    assert (status, report["requests"]) == (2, 5)


def test_missing_scope_is_no_failure_of_the_deployment(shop: Service) -> None:
    narrow = shop.issue("Narrow", "business", "--scopes", "pets:read")["key"]
    status, report = conformance(f"{shop.url}/v1", narrow)
    assert (status, named(report, FAILED)) == (2, [])
    assert "unknown_order_is_not_found" in named(report, NOT_RUN)


# --- The command ---------------------------------------------------------------------------------


def refusal(*options: str) -> CommandError:
    with pytest.raises(CommandError) as refused:
        call_command("conformance", *options, stdout=StringIO())
    return refused.value


def test_refused_key_is_told_with_status_2(shop: Service) -> None:
    error = refusal(f"{shop.url}/v1", "--key", "psk_live_wrong")
    assert "refuses the key (401)" in str(error)
    assert error.returncode == 2


def test_unreachable_deployment_is_told_with_status_2() -> None:
    error = refusal(f"http://127.0.0.1:{free_port()}/v1", "--key", "psk_live_x")
    assert "gives no answer to GET" in str(error)
    assert error.returncode == 2


@pytest.mark.parametrize("url", ["localhost:8000/v1", "https://api.example.com", "ftp://example.com/v1"])
def test_address_must_be_that_of_an_api(url: str) -> None:
    assert "is not the address of an API" in str(refusal(url, "--key", "psk_live_x"))


def test_key_may_come_from_the_environment(
    shop: Service, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "PETSTORE_KEY" in str(refusal(f"{shop.url}/v1"))
    monkeypatch.setenv("PETSTORE_KEY", key)
    out = StringIO()
    call_command("conformance", f"{shop.url}/v1", stdout=out)
    assert re.search(r"\d+ passed, 1 skipped\. \d+ requests with the key\.", out.getvalue())
    assert "\x1b" not in out.getvalue()
    assert key not in out.getvalue()


def test_every_check_has_a_rule_and_a_sentence() -> None:
    assert len(CHECKS) == len({check.name for check in CHECKS}) > 30
    for check in CHECKS:
        assert re.match(r"D\d+|Contract, ", check.rule)
        assert len(check.title) > 10
