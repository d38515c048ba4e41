"""Formatting of counts, percentages and long text."""


def pluralize(number: int, one: str, many: str = "") -> str:
    """Format `1 order waits`, `2 orders wait`. `many` defaults to `one` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 or not share else "under 1%"


def truncate(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
