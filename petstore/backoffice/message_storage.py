"""Where messages to staff wait for the next page."""

from typing import Any

from django.contrib.messages.storage.fallback import FallbackStorage
from django.http import HttpResponseBase


class TruthfulStorage(FallbackStorage):
    """Drops the messages of a request that failed: what they report as done was rolled back.

    Pages queue "was changed successfully" before their transaction commits.
    """

    def update(self, response: HttpResponseBase) -> Any:
        if response.status_code >= 400:
            self._queued_messages.clear()  # type: ignore[attr-defined]  # The stubs lack it.
        return super().update(response)
