"""Storage of messages between requests."""

from typing import Any

from django.contrib.messages.storage.fallback import FallbackStorage
from django.http import HttpResponseBase


class RollbackAwareStorage(FallbackStorage):
    """Discards messages of failed requests, whose transactions were rolled back.

    Without this, users would read "was changed successfully", which Django queues before the commit.
    """

    def update(self, response: HttpResponseBase) -> Any:
        if response.status_code >= 400:
            self._queued_messages.clear()  # type: ignore[attr-defined]  # Missing in the stubs.
        return super().update(response)
