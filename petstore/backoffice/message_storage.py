"""Storage of messages between requests."""

from typing import Any

from django.contrib.messages.storage.fallback import FallbackStorage
from django.http import HttpResponseBase

MAX_MESSAGES = 20


class RollbackAwareStorage(FallbackStorage):
    """Discards messages of failed requests, whose transactions were rolled back, and old unread ones.

    Without this, users would read "was changed successfully", which Django queues before the commit, and
    clients that never show their messages could fill sessions with them.
    """

    def update(self, response: HttpResponseBase) -> Any:
        if response.status_code >= 400:
            self._queued_messages.clear()  # type: ignore[attr-defined]  # Missing in the stubs.
        return super().update(response)

    def _store(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        return super()._store(messages[-MAX_MESSAGES:], *args, **kwargs)  # type: ignore[misc]
