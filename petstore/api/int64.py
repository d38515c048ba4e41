"""The contract's int64, the type of ids in paths, query parameters and bodies."""

import re
from decimal import Decimal
from typing import Any, TypeGuard

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
SCHEMA = {"type": "integer", "format": "int64", "minimum": INT64_MIN, "maximum": INT64_MAX}
CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,18}")


def is_int64(value: Any) -> TypeGuard[int | Decimal]:
    """Return whether a parsed value is a whole number within int64.

    In JSON Schema, `1.0` is an integer (D3), but `true` is not, although Python's bool is an int.
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return False
    # Compare before converting, because 1E999999 has a million digits.
    return INT64_MIN <= value <= INT64_MAX and value == int(value)


def parse_int64(text: str) -> int | None:
    """Parse an int64 in canonical form. Returns None for any other text."""
    return int(text) if CANONICAL.fullmatch(text) and is_int64(int(text)) else None


def parse_id(text: str | None) -> int | None:
    """Parse a decimal ID of at most 19 digits, capped at INT64_MAX. Return None for any other text."""
    if not text or not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    return min(int(text), INT64_MAX)
