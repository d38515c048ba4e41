"""What several pages do: find a key that was pasted, and warn of what not every worker knows yet."""

import re
from functools import partial
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from accounts import key_text
from accounts.models import ApiKey, DailyUsage
from accounts.quota import publishing
from petstore.backoffice.model_admin import PetstoreModelAdmin

LATEST = 10  # Refusals, bans: as many as a page lists.
# The public id, or what is there of it, in a key that somebody pasted whole or in part.
PASTED = re.compile(rf"psk_(?:live|test)_([0-9A-Za-z]{{0,{key_text.PUBLIC_ID_LENGTH}}})", re.ASCII)


def public_id_in(text: str) -> str | None:
    """Return the public id of a key that was pasted, or None if there is no key in the text."""
    found = PASTED.search(text)
    return found[1] if found else None


def with_use_of_today(keys: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
    """Return the keys, each with its `requests_today`."""
    today = DailyUsage.objects.filter(key=OuterRef("pk"), day=timezone.now().date()).values("requests")
    return keys.annotate(requests_today=Coalesce(Subquery(today), 0))


class WarnsIfUntold(PetstoreModelAdmin):
    """Warns after a form of the model was saved, if Redis could not be told of it."""

    keys_lookup: str  # From a key to the model.

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        """Answer; the commit, and what is told after it, are still to come."""
        warn = partial(warn_if_untold, self, request, **{self.keys_lookup: obj.pk})
        transaction.on_commit(warn, robust=True)
        return super().response_change(request, obj)


def warn_if_untold(admin: PetstoreModelAdmin, request: HttpRequest, **keys: Any) -> None:
    """Warn after the commit if Redis could not be told of these keys."""
    if text := publishing.warning(**keys):
        admin.message_user(request, text, messages.WARNING)
