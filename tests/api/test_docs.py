"""The guides tell the truth: every code has its anchor, every number is the program's."""

import re
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from accounts.bans import BAN_LENGTHS, MIN_STRIKES, STRIKE_WINDOW
from accounts.idempotency import KEPT
from accounts.limits import HOUR, MINUTE, SECOND
from accounts.models.api_keys import ROTATION_OVERLAP
from accounts.scopes import SCOPES
from petstore.api.errors import ErrorCode
from petstore.web.docs import GUIDES, Group, Release, releases_in
from petstore.web.error_help import ADVICE
from tests.conftest import Api


def guide(client: Client, name: str) -> str:
    """Return a guide as one line."""
    return " ".join(client.get(f"/docs/{name}").content.decode().split())


def test_every_code_has_its_advice_and_its_anchor_once(client: Client) -> None:
    page = guide(client, "errors")
    assert list(ADVICE) == list(ErrorCode)
    for code in ErrorCode:
        assert page.count(f'id="{code.value}"') == 1
        assert f"<code>{code.value}</code> <span>{code.status}</span>" in page


@pytest.mark.parametrize("text", [text for advice in ADVICE.values() for text in advice])
def test_advice_is_whole_sentences(text: str) -> None:
    assert text.endswith(".")
    assert text.count("`") % 2 == 0
    assert "  " not in text


def test_link_of_an_error_leads_to_its_anchor(api: Api, client: Client) -> None:
    link = api.get("/pets/0").headers["Link"]
    address, anchor = re.findall(r'<http://testserver([^>]*)#([^>]*)>; rel="help"', link)[0]
    assert f'id="{anchor}"' in client.get(address).content.decode()


def test_guide_to_rate_limits_has_the_program_s_numbers(client: Client, settings: Any) -> None:
    settings.ANONYMOUS_PER_MINUTE = 321
    page = guide(client, "rate-limits")
    minutes = [length // MINUTE for length in BAN_LENGTHS[:2]]
    hours = [length // HOUR for length in BAN_LENGTHS[2:]]
    assert "321 a minute" in page
    assert f"within {STRIKE_WINDOW // SECOND} seconds as half the limit per minute" in page
    assert f"but at least {MIN_STRIKES}, ban the key for {minutes[0]} minutes" in page
    assert f"{minutes[1]} minutes, then {hours[0]} hour, {hours[1]} hours and {hours[2]} hours;" in page


def test_guide_to_retries_has_the_program_s_numbers(client: Client) -> None:
    assert f"For {KEPT.total_seconds() / 3600:.0f} hours," in guide(client, "retries")


def test_guide_to_authentication_has_the_overlap_of_a_rotation(client: Client) -> None:
    hours = ROTATION_OVERLAP.total_seconds() / 3600
    assert f"both work for a while, {hours:.0f} hours" in guide(client, "authentication")


def test_guide_to_authentication_names_every_scope(client: Client) -> None:
    rows = re.findall(r'<tr><th scope="row"><code>(.*?)</code>', guide(client, "authentication"))
    assert sorted(rows) == sorted(SCOPES)


@pytest.mark.parametrize(("environment", "prefix"), [("production", "psk_live_"), ("staging", "psk_test_")])
def test_guide_to_authentication_speaks_of_this_deployment(
    client: Client, settings: Any, environment: str, prefix: str
) -> None:
    settings.ENVIRONMENT = environment
    page = guide(client, "authentication")
    assert f"export PETSTORE_KEY='{prefix}…'" in page
    assert f"this is {environment}" in page


def test_guide_to_deprecation_has_both_dates(client: Client) -> None:
    page = guide(client, "deprecation")
    for moment in (settings.GET_PET_DEPRECATED_AT, settings.GET_PET_REMOVED_AT):
        assert f"{moment.day} {moment:%B %Y}" in page


def test_change_log_is_shown_whole(client: Client) -> None:
    page = guide(client, "changes")
    log = (settings.BASE_DIR / "CHANGELOG.md").read_text()
    assert page.count("<li>") - page.count("<li><a ") == len(re.findall("^- ", log, re.MULTILINE))
    assert "`" not in page
    for title in re.findall("^#{2,3} (.*)", log, re.MULTILINE):
        assert re.search(rf"<h[34][^>]*>{re.escape(title)}</h[34]>", page)


def test_change_log_is_read_by_release_and_kind() -> None:
    text = "# Changes\n\nText.\n\n## 2\n\n### Added\n\n- One\n  more.\n- Two.\n\n### Fixed\n\n- Three.\n"
    assert list(releases_in(text + "\n## 1\n")) == [
        ("2", [("Added", ["One more.", "Two."]), ("Fixed", ["Three."])]),
        ("1", []),
    ]


@pytest.mark.parametrize("name", GUIDES)
def test_guide_is_marked_as_the_current_page(client: Client, name: str) -> None:
    page = guide(client, name)
    assert f'<a href="/docs/{name}" aria-current="page">{GUIDES[name]}</a>' in page
    assert page.count("aria-current") == 1
    assert f"<title>{GUIDES[name]} · Pet Store</title>" in page


def test_text_of_an_advice_or_a_change_can_not_be_markup(client: Client, monkeypatch: Any) -> None:
    evil = [Release("<b>", [Group("<i>", ["<script>`<script>`"])])]
    monkeypatch.setattr("petstore.web.docs.releases", lambda: evil)
    page = guide(client, "changes")
    assert "<li>&lt;script&gt;<code>&lt;script&gt;</code></li>" in page
    assert "<script>" not in page
