"""The guides match the service: codes, numbers and the client packages on offer."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from accounts.idempotency import RETENTION
from accounts.keys.scopes import SCOPES
from accounts.models.api_keys import ROTATION_OVERLAP
from accounts.quota import bans
from accounts.quota.limits import HOUR, MINUTE, SECOND
from inventory.status import ORDER_TRANSITIONS, OrderStatus
from petstore.api.errors import ErrorCode
from petstore.site import client_packages
from petstore.templatetags.documentation import render_text

pytestmark = pytest.mark.same_on_both


def guide(client: Client, name: str) -> str:
    return " ".join(client.get(f"/docs/{name}").content.decode().split())


def test_every_code_has_advice_and_one_anchor(client: Client) -> None:
    page = guide(client, "errors")
    for code in ErrorCode:
        assert page.count(f'id="{code.value}"') == 1
        assert f"<code>{code.value}</code> <span>{code.status}</span>" in page
    assert page.count("What to do:") == len(ErrorCode)


def test_guide_to_rate_limits_has_the_limits_of_the_service(client: Client, settings: Any) -> None:
    settings.ANONYMOUS_PER_MINUTE = 321
    page = guide(client, "rate-limits")
    lengths = (length // (MINUTE if length < HOUR else HOUR) for length in bans.BAN_LENGTHS)
    first, interval = bans.FIRST_STRIKE_AFTER // SECOND, bans.STRIKE_INTERVAL // SECOND
    for text in (
        "321 per minute",
        f"at least {first} seconds after the first rejection of the minute",
        f"at least {interval} second after the last strike",
        f"for {bans.STRIKE_WINDOW // SECOND} seconds from the first rejection",
        f"for {next(lengths)} minutes when it has {bans.STRIKES_TO_BAN} strikes and, in that time,",
        f"half the limit per minute (and at least {bans.MIN_REJECTIONS_TO_BAN}).",
        f"banned {first + (bans.STRIKES_TO_BAN - 1) * interval} seconds after its first 429",
        "{} minutes, then {} hour, {} hours and {} hours;".format(*lengths),
    ):
        assert text in page


def test_guide_to_orders_has_every_status_and_transition(client: Client) -> None:
    rows = re.findall(r'<tr><th scope="row"><code>(\w+)</code></th>(.*?)</tr>', guide(client, "orders"))
    assert [status for status, _ in rows] == OrderStatus.values
    for status, row in rows:
        follows = re.findall(r"<code>(\w+)</code>", row.rpartition("<td>")[2])
        assert set(follows) == ORDER_TRANSITIONS[status]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retries", f"For {RETENTION // timedelta(hours=1)} hours,"),
        ("authentication", f"both work for a while, {ROTATION_OVERLAP // timedelta(hours=1)} hours"),
        ("deprecation", f"{settings.GET_PET_DEPRECATED_AT:%Y-%m-%d}"),
        ("deprecation", f"{settings.GET_PET_REMOVED_AT:%Y-%m-%d}"),
        ("events", f"Events are kept for {settings.EVENT_RETENTION_DAYS} days"),
        ("errors", f"Events are kept for {settings.EVENT_RETENTION_DAYS} days"),
    ],
)
def test_guides_have_the_values_of_the_service(client: Client, name: str, text: str) -> None:
    assert text in guide(client, name)


def test_guide_to_authentication_names_every_scope(client: Client) -> None:
    rows = re.findall(r'<tr><th scope="row"><code>(.*?)</code>', guide(client, "authentication"))
    assert sorted(rows) == sorted(SCOPES)


def test_guide_to_retries_and_its_examples_retry_the_same_statuses(client: Client) -> None:
    rows = re.findall(r'<tr><th scope="row">([\d, ]+)</th><td>yes', guide(client, "retries"))
    statuses = sorted(", ".join(rows).split(", "))
    for suffix in ("py", "mjs"):
        text = render_text(f"docs/examples/retries.{suffix}")
        (retryable,) = re.findall(r"RETRYABLE = .*?([\d, ]+)[\]}]", text)
        assert retryable.split(", ") == statuses


WHEEL = "petstore_client-9.9.9-py3-none-any.whl"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "python" / WHEEL
    path.parent.mkdir()
    path.write_bytes(b"wheel")
    monkeypatch.setattr(client_packages, "PACKAGES", {WHEEL: path})
    return path


def test_built_package_is_served(client: Client, built: Path) -> None:
    response = client.get(f"/docs/clients/{WHEEL}")
    assert (response.content, response["Content-Type"]) == (b"wheel", "application/zip")
    assert response["Content-Disposition"] == f'attachment; filename="{WHEEL}"'


def test_no_other_file_is_served(client: Client, built: Path) -> None:
    for name in ("other.whl", "..%2f..%2fmanage.py", "petstore_client-9.9.9.tgz"):
        assert client.get(f"/docs/clients/{name}").status_code == 404
