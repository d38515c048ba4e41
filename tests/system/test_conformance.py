"""`manage.py conformance` passes on the running service, and finds the faults of a broken deployment."""

import itertools
import re
from typing import Any

import pytest
from django.core.management import CommandError

from petstore.conformance.rules import CHECKS, REJECTIONS
from tests.support.commands import run, run_json
from tests.support.live import Service
from tests.support.servers import free_port
from tests.system.broken import (
    FEED_CHECK,
    VARIANTS,
    Reply,
    Variant,
    broken,
    rejected_without_retry_after,
    with_wrong_error_codes,
    without,
)

PASSED, FAILED, SKIPPED, NOT_RUN = "passed", "failed", "skipped", "not run"


@pytest.fixture(scope="module")
def shop(service: Service) -> Service:
    """The service with pets in it."""
    service.manage("seed_demo", "--pets", "60")
    return service


accounts = itertools.count()


@pytest.fixture
def key(shop: Service) -> str:
    """The key of a new account: each key may fetch its account 60 times a minute."""
    return shop.issue_high_limit_key(f"Conformance {next(accounts)}")


def run_conformance(url: str, key: str, *options: str, status: int = 0) -> Any:
    """Run the command, which exits with this status, and return its JSON."""
    return run_json("conformance", url, "--key", key, *options, status=status)


def get_names(report: dict[str, Any], outcome: str) -> list[str]:
    return [check["name"] for check in report["checks"] if check["outcome"] == outcome]


# --- Passing -------------------------------------------------------------------------------------


@pytest.mark.each_database
def test_running_service_passes_read_only_with_a_free_key(shop: Service) -> None:
    before = shop.manage("shell", "--no-imports", "-c", COUNT)
    report = run_conformance(f"{shop.url}/v1", shop.issue("Free", "free")["key"])
    assert (get_names(report, FAILED), get_names(report, NOT_RUN)) == ([], [])
    assert get_names(report, SKIPPED) == ["rejection_has_retry_after"]
    assert report["requests"] <= 60
    assert report["left_behind"] == []
    assert shop.manage("shell", "--no-imports", "-c", COUNT) == before


COUNT = """
from inventory.models import Order, Pet
print(Pet.objects.count(), Order.objects.count())
"""


def test_writing_checks_leave_and_report_one_available_pet(shop: Service, key: str) -> None:
    pets, _ = map(int, shop.manage("shell", "--no-imports", "-c", COUNT).split())
    report = run_conformance(f"{shop.url}/v1", key, "--write")
    assert (get_names(report, FAILED), get_names(report, NOT_RUN)) == ([], [])
    assert set(get_names(report, PASSED)) >= {check.name for check in CHECKS if check.writes}
    (left,) = report["left_behind"]
    pet_id = int(re.findall(r"\d+", left)[0])
    with shop.client(key) as client:
        assert client.get(f"/pets/{pet_id}").json()["status"] == "available"
        assert client.get("/store/orders?status=placed").json() == []
    assert int(shop.manage("shell", "--no-imports", "-c", COUNT).split()[0]) == pets + 1


# --- Failing -------------------------------------------------------------------------------------


# These examine the requests and writes of other checks, as those named every_... do.
EXAMINE_OTHERS = {FEED_CHECK, "filters_are_applied", "rejection_has_retry_after"}


@pytest.mark.parametrize(("variant", "check_name"), VARIANTS)
def test_violation_is_detected(
    shop: Service, key: str, variant: Variant, check_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("petstore.conformance.rules.POLL_DELAYS", (0, 0.3))  # What is lost never comes.
    if not (check_name in EXAMINE_OTHERS or check_name.startswith("every_")):
        alone = [check for check in CHECKS if check.name == check_name]
        monkeypatch.setattr("petstore.management.commands.conformance.CHECKS", alone)
    with broken(shop, variant) as url:
        report = run_conformance(url, key, "--write", status=1)
    assert check_name in get_names(report, FAILED), report
    (result,) = [check for check in report["checks"] if check["name"] == check_name]
    assert result["detail"]
    assert result["see"]


def test_every_rejection_needs_its_own_code(shop: Service, key: str) -> None:
    with broken(shop, with_wrong_error_codes) as url:
        report = run_conformance(url, key, "--write", status=1)
    assert {check.name for check in REJECTIONS} <= set(get_names(report, FAILED))


def test_finding_links_to_its_rule(shop: Service, key: str) -> None:
    with broken(shop, without("ETag")) as url:
        lines = run("conformance", url, "--key", key, status=1).splitlines()
    (first,) = [number for number, line in enumerate(lines) if line.startswith("failed   If-None-Match")]
    assert lines[first].endswith(" (D32)")
    assert lines[first + 2] == "         See docs/decisions.md#d32."


# --- Quota of the key ----------------------------------------------------------------------------


def test_run_stops_after_a_429(shop: Service, key: str) -> None:
    sent: list[str] = []

    def reject(reply: Reply) -> None:
        rejected_without_retry_after(reply)
        if reply.status == 429:
            reply.headers["retry-after"] = "30"
            if "0000" not in reply.request_headers.get("Authorization", "0000"):
                sent.append(reply.path)

    with broken(shop, reject) as url:
        report = run_conformance(url, key, status=1)
    assert len(sent) == 1
    assert len(get_names(report, NOT_RUN)) > 5


@pytest.mark.parametrize(
    ("options", "requests", "reason"),
    [
        (("--keep", "10"), 20, "Only 10 requests remain in the quota. See --keep."),
        (("--budget", "5"), 5, "The budget of 5 requests is too small. See --budget."),
    ],
)
def test_run_stops_before_quota_or_budget_are_used_up(
    shop: Service, options: tuple[str, ...], requests: int, reason: str
) -> None:
    numbers = ("--per-minute", "30", "--per-day", "1000")
    small = shop.issue("Small", "enterprise", *numbers)["key"]
    report = run_conformance(f"{shop.url}/v1", small, *options, status=2)
    assert (get_names(report, FAILED), report["requests"]) == ([], requests)
    assert reason in {check["detail"] for check in report["checks"] if check["outcome"] == NOT_RUN}


def test_key_without_the_scope_of_the_feed_is_reported(shop: Service) -> None:
    scopes = "pets:read,pets:write,orders:read,orders:write"
    narrow = shop.issue("Deaf", "business", "--scopes", scopes)["key"]
    report = run_conformance(f"{shop.url}/v1", narrow, "--write", status=2)
    assert get_names(report, FAILED) == []  # A missing scope is no failure of the deployment.
    assert get_names(report, NOT_RUN) == [
        "feed_end_has_a_cursor",
        "invalid_feed_parameters_are_rejected",
        "feed_reports_every_write_once",
    ]


# --- The command ---------------------------------------------------------------------------------


def get_error(*options: str) -> CommandError:
    with pytest.raises(CommandError) as raised:
        run("conformance", *options)
    return raised.value


def test_rejected_key_and_unreachable_deployment_exit_with_status_2(shop: Service) -> None:
    for url, message in (
        (f"{shop.url}/v1", "rejects the key (401)"),
        (f"http://127.0.0.1:{free_port()}/v1", "does not respond to GET"),
    ):
        error = get_error(url, "--key", "psk_live_wrong")
        assert message in str(error)
        assert error.returncode == 2


def test_address_must_be_that_of_an_api_and_numbers_have_bounds() -> None:
    for url in ("localhost:8000/v1", "https://api.example.com", "ftp://example.com/v1"):
        assert "is not an API address" in str(get_error(url, "--key", "psk_live_x"))
    for options in (("--budget", "0"), ("--keep", "-1")):
        error = get_error("http://localhost/v1", "--key", "psk_live_x", *options)
        assert (str(error), error.returncode) == ("--budget must be 1 or more, --keep 0 or more.", 2)


def test_key_is_read_from_the_environment(shop: Service, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "PETSTORE_KEY" in str(get_error(f"{shop.url}/v1"))
    monkeypatch.setenv("PETSTORE_KEY", key)
    printed = run("conformance", f"{shop.url}/v1")
    assert re.search(r"\d+ passed, 1 skipped\. \d+ requests with the key\.", printed)
    assert "\x1b" not in printed
    assert key not in printed


def test_ctrl_c_stops_a_run_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("petstore.conformance.session.exchange", stop)
    error = get_error("http://localhost/v1", "--key", "psk_live_x")
    assert (str(error), error.returncode) == ("Stopped.", 130)
