"""Numbers in words."""


def counted(number: int, one: str, many: str = "") -> str:
    """Return `1 order waits`, `2 orders wait`; `many` is `one` with an s unless it is given."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 or not share else "under 1%"
