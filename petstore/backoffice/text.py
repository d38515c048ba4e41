"""Numbers in words, and texts that are cut."""


def pluralize(number: int, one: str, many: str = "") -> str:
    """Return `1 order waits`, `2 orders wait`; `many` is `one` with an s unless it is given."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 or not share else "under 1%"


def truncate(text: str, most: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
