"""The change log, as the documentation shows it."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from django.conf import settings


class Group(NamedTuple):
    title: str
    changes: list[str]


class Release(NamedTuple):
    title: str
    groups: list[Group]


@cache
def releases() -> list[Release]:
    """Return the releases of CHANGELOG.md, the newest first."""
    return list(read((settings.BASE_DIR / "CHANGELOG.md").read_text(encoding="utf-8")))


def read(text: str) -> Iterator[Release]:
    """Yield the releases of a change log: `## version`, under it `### kind` and its list."""
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, *groups = re.split(r"^### ", part, flags=re.MULTILINE)
        yield Release(title.strip(), [group(one) for one in groups])


def group(text: str) -> Group:
    """Return a kind of change, each change on one line."""
    title, *changes = re.split(r"^- ", text, flags=re.MULTILINE)
    return Group(title.strip(), [" ".join(change.split()) for change in changes])
