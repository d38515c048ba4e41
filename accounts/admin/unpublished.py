"""What staff are told when a change is saved that not every worker may know of yet."""

from functools import partial
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from accounts.quota import publishing
from petstore.backoffice.model_admin import PetstoreModelAdmin


def warn_if_untold(admin: PetstoreModelAdmin, request: HttpRequest, **keys: Any) -> None:
    """Warn after the commit if Redis could not be told of these keys."""
    if text := publishing.warning(**keys):
        admin.message_user(request, text, messages.WARNING)


class WarnsIfUntold(PetstoreModelAdmin):
    """Warns after a form of the model was saved."""

    keys_lookup: str  # From a key to the model.

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        """Answer; the commit, and what is told after it, are still to come."""
        warn = partial(warn_if_untold, self, request, **{self.keys_lookup: obj.pk})
        transaction.on_commit(warn, robust=True)
        return super().response_change(request, obj)
