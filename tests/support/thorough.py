"""How often tests repeat races and random input: often in CI, a few times otherwise.

`THOROUGH=1 make test` repeats as often as CI.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

THOROUGH = os.environ.get("CI") == "true" or os.environ.get("THOROUGH", "") not in ("", "0")


def times(thorough: int, otherwise: int) -> int:
    return thorough if THOROUGH else otherwise


def some(values: Sequence[T], step: int) -> Sequence[T]:
    """All values, or every `step`-th."""
    return values if THOROUGH else values[::step]
