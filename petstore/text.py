"""Texts of several pages, and the formatting of counts, durations, percentages, times and long text."""

from datetime import datetime

from django.utils.formats import date_format

FORM_TOO_LARGE = "The form is too large and was not saved. Go back, shorten it and try again."


def format_count(count: int, singular: str, plural: str = "") -> str:
    """Format a count with its noun, such as `2 orders`. `plural` defaults to `singular` with an s."""
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"


def format_duration(minutes: int) -> str:
    """Format minutes as days and hours, or as hours and minutes, without those that are zero."""
    days, hours = divmod(minutes // 60, 24)
    units = {"day": days, "hour": hours, "minute": 0 if days else minutes % 60}
    return " ".join(format_count(count, unit) for unit, count in units.items() if count)


def format_percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 or not share else "under 1%"


def truncate(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def format_time(at: datetime) -> str:
    return date_format(at, "DATETIME_FORMAT")
