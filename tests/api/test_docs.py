"""The guides match the service: codes, numbers, contacts and the client packages on offer."""

import html
import re
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils.html import strip_tags

from accounts.idempotency import RETENTION
from accounts.keys.scopes import SCOPES
from accounts.models.api_keys import ROTATION_OVERLAP
from accounts.quota import bans
from accounts.quota.limits import HOUR, MINUTE, SECOND
from inventory.status import ORDER_TRANSITIONS, OrderStatus
from petstore.api.errors import ErrorCode
from petstore.site import client_packages
from petstore.site.docs import GUIDES
from petstore.templatetags.documentation import highlighted, indent_json, render_text
from tests.support.live import ROOT

pytestmark = pytest.mark.same_on_both
EXAMPLES = sorted((ROOT / "templates/docs/examples").iterdir())
STYLES = (ROOT / "petstore/static/petstore/site.css").read_text()


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
    ("environment", "prefix", "address_count"),
    [("production", "psk_live_", 2), ("staging", "psk_test_", 1)],
)
def test_guides_show_the_addresses_and_keys_of_this_deployment(
    client: Client, settings: Any, environment: str, prefix: str, address_count: int
) -> None:
    settings.ENVIRONMENT = environment
    row = re.findall(r"<tr>.*?</tr>", guide(client, "environments"))[1]
    assert row.count("<code>http") == address_count
    assert f"You are reading the pages of {environment}." in guide(client, "environments")
    page = client.get("/docs/authentication.md").text
    assert f"export PETSTORE_KEY='{prefix}YOUR_KEY'" in page
    assert f"this is {environment}" in page


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


def test_highlighting_keeps_the_text() -> None:
    for file in EXAMPLES:
        text = render_text(f"docs/examples/{file.name}")
        markup = highlighted(text, file.suffix[1:])
        assert html.unescape(strip_tags(markup)) == text
        classes = set(re.findall(r'<span class="(\w+)">', markup))
        assert classes > {"literal"}, file.name
        assert {f".{name}" for name in classes} <= set(re.findall(r"\.\w+", STYLES))


def test_each_guide_is_the_current_page_between_the_previous_and_the_next(client: Client) -> None:
    links = [*((before, after) for before, after in pairwise([None, *GUIDES, None])), (None, None)]
    for name, (before, _), (_, after) in zip(GUIDES, links, links[1:], strict=False):
        page = guide(client, name)
        assert f'<a href="/docs/{name}" aria-current="page">{GUIDES[name]}</a>' in page
        assert page.count("aria-current") == 1
        assert f"<title>{GUIDES[name]} · Pet Store</title>" in page
        assert re.findall('<a rel="prev" href="/docs/(.*?)">', page) == [before] * (before is not None)
        assert re.findall('<a rel="next" href="/docs/(.*?)">', page) == [after] * (after is not None)
        assert client.get(f"/docs/{name}/").headers["Location"] == f"/docs/{name}"
    assert client.get("/docs/nothing/").status_code == 404


def test_json_of_samples_is_indented() -> None:
    indented = '[\n  {\n    "id": 1,\n    "name": "é"\n  },\n  …\n]'
    assert indent_json('[{"id":1,"name":"é"}, …]') == indented
    assert [indent_json(line) for line in ("{'id': 1}", "[]")] == ["{'id': 1}", "[]"]


def test_changes_of_the_api_are_dated_newest_first_and_can_be_linked(client: Client) -> None:
    page = guide(client, "changes")
    days = re.findall(r'<h2 id="([^"]*)"><time datetime="\1">\1</time></h2>', page)
    assert days == sorted(set(days), reverse=True)
    links = re.findall(r'<h3 id="([\w-]+)">', page)
    assert len(set(links)) == page.count("<h3") > 7


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


def test_guides_install_the_packages_that_were_built(client: Client, built: Path, monkeypatch: Any) -> None:
    for page in ("quickstart", "clients"):
        text = client.get(f"/docs/{page}").text
        assert f"http://testserver/docs/clients/{WHEEL}" in text
        assert "npm install" not in text
    monkeypatch.setattr(client_packages, "PACKAGES", {})
    assert "This deployment does not offer the packages." in client.get("/docs/clients").text


PAGES = ["/", "/docs/quickstart", "/docs/authentication", "/docs/environments", "/docs/errors"]


def test_pages_link_to_support(client: Client, db: None, settings: Any) -> None:
    for page in (client.get(path).text for path in PAGES):
        assert "mailto:" not in page
        assert "This service publishes no contact: ask its operator." in page
    settings.SUPPORT_URL, settings.SUPPORT_EMAIL = "https://help.example/?a=1&b=2", "help@pets.example"
    subject = r"\?subject=Pet%20Store%3A%20Get%20[a-z%20]+"
    for page in (client.get(path).text for path in PAGES):
        assert '<a href="https://help.example/?a=1&amp;b=2">' in page
        assert re.search(rf'<a href="mailto:help@pets\.example{subject}">help@pets\.example</a>', page)


def test_errors_that_need_support_link_to_it(client: Client, settings: Any) -> None:
    settings.SUPPORT_EMAIL = "help@pets.example"
    sections = re.findall(r'<section class="code" aria-labelledby="(\w+)">(.*?)</section>',
                          client.get("/docs/errors").text, re.DOTALL)  # fmt: skip
    codes = {code for code, text in sections if "help@pets.example" in text}
    assert codes == {
        "invalid_api_key", "expired_api_key", "insufficient_scope", "account_suspended",
        "order_not_cancellable", "daily_quota_exceeded", "api_key_banned", "internal_error",
    }  # fmt: skip
