"""How often tests repeat races and random input: often in CI, a few times otherwise.

`THOROUGH=1 make test` repeats as often as CI.
"""

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

T = TypeVar("T")

THOROUGH = os.environ.get("CI") == "true" or os.environ.get("THOROUGH", "") not in ("", "0")


def times(thorough: int, otherwise: int) -> int:
    return thorough if THOROUGH else otherwise


def some(values: Sequence[T], step: int) -> Sequence[T]:
    """All values, or every `step`-th."""
    return values if THOROUGH else values[::step]


@cache
def have_pages_changed() -> bool:
    """Return whether what pages are made of differs from main."""
    made_of = ("templates", "petstore", "accounts", "inventory")
    command = ["git", "diff", "--quiet", "--merge-base", "origin/main", "--", *made_of]
    return subprocess.run(command, capture_output=True, check=False).returncode != 0


def some_pages(paths: Sequence[T]) -> Sequence[T]:
    """All pages in CI, half of them if pages have changed, and otherwise a few."""
    return some(paths, 2 if have_pages_changed() else 8)
