"""The documentation: guides, the change log, and the reference in which every operation can be tried."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from petstore.api.openapi.lists import lists
from petstore.web.error_help import ADVICE

GUIDES = {
    "authentication": "Authentication",
    "rate-limits": "Rate limits",
    "errors": "Errors",
    "pagination": "Pagination",
    "retries": "Retries",
    "deprecation": "Deprecation",
    "changes": "Versions and changes",
}


def context(page: str) -> dict[str, Any]:
    """Return what every page of the documentation shows. The reference is the page without a name."""
    return {
        "guides": [(reverse(f"docs-{name}"), title, name == page) for name, title in GUIDES.items()],
        "title": GUIDES.get(page, "Reference"),
        "base_url": settings.BASE_URL,
        "staging_base_url": settings.STAGING_BASE_URL,
        "environment": settings.ENVIRONMENT,
        "key_prefix": "psk_test_" if settings.ENVIRONMENT == "staging" else "psk_live_",
        "anonymous_per_minute": settings.ANONYMOUS_PER_MINUTE,
        "get_pet_deprecated_at": settings.GET_PET_DEPRECATED_AT,
        "get_pet_removed_at": settings.GET_PET_REMOVED_AT,
    }


@require_safe
def guide(request: HttpRequest, page: str) -> HttpResponse:
    own: dict[str, Any] = {}
    if page == "errors":
        own["advice"] = ADVICE
    elif page == "pagination":
        own["lists"] = lists()
    elif page == "changes":
        own["releases"] = releases()
    return render(request, f"docs/{page}.html", context(page) | own)


@require_safe
def reference(request: HttpRequest) -> HttpResponse:
    """Show Swagger UI from the sidecar, in a page of ours that keeps the Content-Security-Policy."""
    options = json.dumps(settings.SPECTACULAR_SETTINGS["SWAGGER_UI_SETTINGS"])
    return render(request, "docs/reference.html", context("") | {"settings": options})


# --- The change log


class Group(NamedTuple):
    title: str
    changes: list[str]


class Release(NamedTuple):
    title: str
    groups: list[Group]


@cache
def releases() -> list[Release]:
    """Return the releases of CHANGELOG.md, the newest first."""
    return list(releases_in((settings.BASE_DIR / "CHANGELOG.md").read_text(encoding="utf-8")))


def releases_in(text: str) -> Iterator[Release]:
    """Yield the releases of a change log: `## version`, under it `### kind` and its list."""
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, *groups = re.split(r"^### ", part, flags=re.MULTILINE)
        yield Release(title.strip(), [changes_of(one) for one in groups])


def changes_of(text: str) -> Group:
    """Return a kind of change, each change on one line."""
    title, *changes = re.split(r"^- ", text, flags=re.MULTILINE)
    return Group(title.strip(), [" ".join(change.split()) for change in changes])
