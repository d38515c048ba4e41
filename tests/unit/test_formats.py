"""Dates and durations have one format on every page."""

import re
from datetime import UTC, datetime

import pytest
from django.conf import settings
from django.template import Context, Template

from petstore.text import format_duration

# For people, for looking up a request, and for programs.
ALLOWED = {"", "DATETIME_FORMAT", "Y-m-d H:i:s", "Y-m-d", "c"}


def test_templates_use_the_standard_date_formats() -> None:
    pages = sorted((settings.BASE_DIR / "templates").rglob("*.html"))
    found = {
        (str(page), written)
        for page in pages
        for written in re.findall(r"""\|date\b(?::["']([^"']*)["'])?""", page.read_text())
    }
    assert found
    assert not [(page, written) for page, written in found if written not in ALLOWED]


def test_dates_use_the_configured_formats() -> None:
    at = datetime(2026, 11, 3, 6, 5, 59, tzinfo=UTC)
    for text in ("{{ at }}", "{{ at|date:'DATETIME_FORMAT' }}"):
        assert Template(text).render(Context({"at": at})) == "2026-11-03 06:05 UTC"
    for text in ("{{ at|date }}", "{{ at.date }}"):
        assert Template(text).render(Context({"at": at})) == "2026-11-03"


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (1, "1 minute"), (59, "59 minutes"), (60, "1 hour"), (61, "1 hour 1 minute"),
        (1439, "23 hours 59 minutes"), (1441, "1 day"), (1500, "1 day 1 hour"), (123_862, "86 days"),
    ],
)  # fmt: skip
def test_duration_has_at_most_two_units(minutes: int, text: str) -> None:
    assert format_duration(minutes) == text
