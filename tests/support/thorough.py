"""How often tests repeat races and random input: often in CI, a few times otherwise.

`THOROUGH=1 make test` repeats as often as CI.
"""

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

import pytest

T = TypeVar("T")

THOROUGH = os.environ.get("CI") == "true" or os.environ.get("THOROUGH", "") not in ("", "0")


def times(thorough: int, otherwise: int) -> int:
    return thorough if THOROUGH else otherwise


def some(values: Sequence[T], step: int) -> Sequence[T]:
    """All values, or every `step`-th."""
    return values if THOROUGH else values[::step]


@cache
def have_changed(*paths: str) -> bool:
    """Return whether files differ from main."""
    command = ["git", "diff", "--quiet", "--merge-base", "origin/main", "--", *paths]
    return subprocess.run(command, capture_output=True, check=False).returncode != 0


def some_pages(paths: Sequence[T]) -> Sequence[T]:
    """All pages in CI, half of them if what pages are made of has changed, and otherwise a few."""
    return some(paths, 2 if have_changed("templates", "petstore", "accounts", "inventory") else 8)


def needs_changed_document() -> pytest.MarkDecorator:
    """Skip a slow check of the OpenAPI document unless it differs from main's, or in CI.

    It is that of tests/openapi.yaml, as tests/api/test_openapi.py checks.
    """
    is_needed = THOROUGH or have_changed("tests/openapi.yaml")
    return pytest.mark.skipif(not is_needed, reason="The OpenAPI document is that of main.")
