"""Texts that several pages share."""

import pytest

from petstore.text import format_duration


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (1, "1 minute"), (59, "59 minutes"), (60, "1 hour"), (61, "1 hour 1 minute"),
        (1439, "23 hours 59 minutes"), (1441, "1 day"), (1500, "1 day 1 hour"), (123_862, "86 days"),
    ],
)  # fmt: skip
def test_duration_has_at_most_two_units(minutes: int, text: str) -> None:
    assert format_duration(minutes) == text
