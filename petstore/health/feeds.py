"""The updates to the incidents of the status page as an RSS feed."""

import re
from contextlib import suppress
from datetime import datetime

from django.contrib.syndication.views import Feed
from django.db import Error
from django.urls import reverse_lazy
from django.utils import timezone

from petstore.health.models import Incident, IncidentUpdate

FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # XML 1.0, section 2.2.


class StatusFeed(Feed):  # type: ignore[type-arg]  # Generic in its stubs only.
    title = "Status of the Pet Store API"
    description = "Updates to incidents, latest first."
    link = reverse_lazy("status")

    def items(self) -> list[IncidentUpdate]:
        with suppress(Error):  # As on the status page.
            updates = [
                update for one in Incident.objects.recent(timezone.now()) for update in one.updates.all()
            ]
            return sorted(updates, key=self.item_pubdate, reverse=True)
        return []

    def item_title(self, item: IncidentUpdate) -> str:
        return FORBIDDEN.sub(" ", f"{item.get_stage_display()}: {item.incident.title}")

    def item_description(self, item: IncidentUpdate) -> str:
        return FORBIDDEN.sub(" ", item.text)

    def item_categories(self, item: IncidentUpdate) -> list[str]:
        return [f"Impact: {item.incident.impact}"]

    def item_link(self, item: IncidentUpdate) -> str:
        return f"{self.link}#update-{item.pk}"

    def item_pubdate(self, item: IncidentUpdate) -> datetime:
        return item.posted_at
