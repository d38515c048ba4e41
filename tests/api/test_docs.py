"""The guides match the service: every code has an anchor, and numbers are correct."""

import html
import json
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
from petstore.site.docs import GUIDES
from petstore.templatetags.documentation import highlighted, indent_json, render_text
from tests.support.live import ROOT

EXAMPLES = sorted((ROOT / "templates/docs/examples").iterdir())
STYLES = (ROOT / "petstore/static/petstore/site.css").read_text()


def guide(client: Client, name: str) -> str:
    """Return a guide as one line."""
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
    minutes = [length // MINUTE for length in bans.BAN_LENGTHS[:2]]
    hours = [length // HOUR for length in bans.BAN_LENGTHS[2:]]
    assert "321 per minute" in page
    first, interval = bans.FIRST_STRIKE_AFTER // SECOND, bans.STRIKE_INTERVAL // SECOND
    assert f"at least {first} seconds after the first rejection of the minute" in page
    assert f"at least {interval} second after the last strike" in page
    assert f"for {bans.STRIKE_WINDOW // SECOND} seconds from the first rejection" in page
    assert f"for {minutes[0]} minutes when it has {bans.STRIKES_TO_BAN} strikes and, in that time," in page
    assert f"half the limit per minute (and at least {bans.MIN_REJECTIONS_TO_BAN})." in page
    assert f"banned {first + (bans.STRIKES_TO_BAN - 1) * interval} seconds after its first 429" in page
    assert f"{minutes[1]} minutes, then {hours[0]} hour, {hours[1]} hours and {hours[2]} hours;" in page


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


def format_hours(duration: timedelta) -> str:
    return f"{duration.total_seconds() / 3600:.0f} hours"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retries", f"For {format_hours(RETENTION)},"),
        ("authentication", f"both work for a while, {format_hours(ROTATION_OVERLAP)}"),
        ("deprecation", f"{settings.GET_PET_DEPRECATED_AT:%Y-%m-%d}"),
        ("deprecation", f"{settings.GET_PET_REMOVED_AT:%Y-%m-%d}"),
        ("events", f"Events are kept for {settings.EVENTS_KEPT_DAYS} days"),
        ("errors", f"Events are kept for {settings.EVENTS_KEPT_DAYS} days"),
    ],
)
def test_guides_have_the_values_of_the_service(client: Client, name: str, text: str) -> None:
    assert text in guide(client, name)


def test_guide_to_retries_and_its_examples_retry_the_same_statuses(client: Client) -> None:
    rows = re.findall(r'<tr><th scope="row">([\d, ]+)</th><td>yes', guide(client, "retries"))
    statuses = sorted(", ".join(rows).split(", "))
    for suffix in ("py", "mjs"):
        text = render_text(f"docs/examples/retries.{suffix}")
        (retryable,) = re.findall(r"RETRYABLE = .*?([\d, ]+)[\]}]", text)
        assert retryable.split(", ") == statuses


def test_guide_to_clients_names_the_versions_that_are_tested(client: Client) -> None:
    pinned = json.loads((ROOT / "tests/system/clients/retrying/package.json").read_text())
    page = guide(client, "retry-clients")
    for name, version in pinned["devDependencies"].items():
        assert name == "axios" or f"{name} {version.rpartition('.')[0]}" in page


def test_guide_to_authentication_names_every_scope(client: Client) -> None:
    rows = re.findall(r'<tr><th scope="row"><code>(.*?)</code>', guide(client, "authentication"))
    assert sorted(rows) == sorted(SCOPES)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_highlighting_keeps_the_text(file: Path) -> None:
    text = render_text(f"docs/examples/{file.name}")
    markup = highlighted(text, file.suffix[1:])
    assert html.unescape(strip_tags(markup)) == text
    classes = set(re.findall(r'<span class="(\w+)">', markup))
    assert classes > {"literal"}
    assert {f".{name}" for name in classes} <= set(re.findall(r"\.\w+", STYLES))


@pytest.mark.parametrize(
    ("line", "indented"),
    [
        ('[{"id":1,"name":"é"}, …]', '[\n  {\n    "id": 1,\n    "name": "é"\n  },\n  …\n]'),
        ('{"id":1}', '{\n  "id": 1\n}'),
        ("{'id': 1}", "{'id': 1}"),
        ("[]", "[]"),
        ("1 Oscar", "1 Oscar"),
    ],
)
def test_json_of_samples_is_indented(line: str, indented: str) -> None:
    assert indent_json(line) == indented


def test_changes_of_the_api_are_dated_newest_first_and_can_be_linked(client: Client) -> None:
    page = guide(client, "changes")
    days = re.findall(r'<h2 id="([^"]*)"><time datetime="\1">\1</time></h2>', page)
    assert days == sorted(set(days), reverse=True)
    links = re.findall(r'<h3 id="([\w-]+)">', page)
    assert len(set(links)) == page.count("<h3") > 7


@pytest.mark.parametrize("name", GUIDES)
def test_guide_is_marked_as_the_current_page(client: Client, name: str) -> None:
    page = guide(client, name)
    assert f'<a href="/docs/{name}" aria-current="page">{GUIDES[name]}</a>' in page
    assert page.count("aria-current") == 1
    assert f"<title>{GUIDES[name]} · Pet Store</title>" in page


def test_guides_link_to_previous_and_next(client: Client) -> None:
    names = list(GUIDES)
    for before, after in pairwise(names):
        assert f'<a rel="next" href="/docs/{after}">' in client.get(f"/docs/{before}").text
        assert f'<a rel="prev" href="/docs/{before}">' in client.get(f"/docs/{after}").text
    assert 'rel="prev"' not in client.get(f"/docs/{names[0]}").text
    assert 'rel="next"' not in client.get(f"/docs/{names[-1]}").text
    assert "Previous and next" not in client.get("/docs").text


@pytest.mark.parametrize("page", ["", "/errors"])
def test_trailing_slash_of_a_page_is_redirected(client: Client, page: str) -> None:
    assert client.get("/docs/nothing/").status_code == 404
    response = client.get(f"/docs{page}/")
    assert (response.status_code, response.headers["Location"]) == (301, f"/docs{page}")


def test_every_placeholder_for_a_key_can_be_sent_in_a_header(client: Client) -> None:
    for page in ("/", "/docs/authentication"):
        assert "YOUR_KEY" in client.get(page).text
        assert not re.search(r"psk_(live|test)_[^\x00-\x7f]", client.get(page).text)
