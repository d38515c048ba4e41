"""The contract's int64: ids in paths, query parameters and bodies."""

import re
from decimal import Decimal
from typing import Any, TypeGuard

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
SCHEMA = {"type": "integer", "format": "int64", "minimum": INT64_MIN, "maximum": INT64_MAX}
CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,18}")


def is_int64(value: Any) -> TypeGuard[int | Decimal]:
    """Tell whether a value of a body is a whole number in int64; `1.0` is one to JSON Schema (D3).

    `true` is none, though Python's bool is an int.
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return False
    # Compared before it is converted: 1E999999 has a million digits.
    return INT64_MIN <= value <= INT64_MAX and value == int(value)


def int64(text: str) -> int | None:
    """Return the number that a text is in canonical form, or None."""
    return int(text) if CANONICAL.fullmatch(text) and is_int64(int(text)) else None
