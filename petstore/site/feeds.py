"""The changes of the API, which a guide and an RSS feed show."""

import tomllib
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

from django.contrib.syndication.views import Feed
from django.urls import reverse_lazy

CHANGES = tomllib.loads(Path(__file__).with_name("changes.toml").read_text("utf-8"))["changes"]


class ChangesFeed(Feed):  # type: ignore[type-arg]  # Generic in its stubs only.
    title = "Changes of the Pet Store API"
    description = "Additions and deprecations, newest first."
    link = reverse_lazy("docs-changes")

    def items(self) -> list[dict[str, Any]]:
        return list(CHANGES)

    def item_title(self, item: dict[str, Any]) -> str:
        return str(item["title"])

    def item_description(self, item: dict[str, Any]) -> str:
        return str(item["text"])

    def item_link(self, item: dict[str, Any]) -> str:
        return f"{self.link}#{item['id']}"

    def item_pubdate(self, item: dict[str, Any]) -> datetime:
        return datetime.combine(item["date"], time(), UTC)
