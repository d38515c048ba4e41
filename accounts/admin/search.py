"""Finding keys and accounts by public ids, and keeping pasted keys out of addresses."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.admin.views.main import SEARCH_VAR
from django.http import HttpRequest, HttpResponseRedirect

from accounts import key_text
from petstore.backoffice.model_admin import PetstoreModelAdmin

# The public id, or what is there of it, in a key that somebody pasted whole or in part.
PASTED = re.compile(rf"psk_(?:live|test)_([0-9A-Za-z]{{0,{key_text.PUBLIC_ID_LENGTH}}})", re.ASCII)


def public_id_in(text: str) -> str | None:
    """Return the public id of a key that was pasted, or None if there is no key in the text."""
    found = PASTED.search(text)
    return found[1] if found else None


def without_secret(request: HttpRequest, name: str = SEARCH_VAR) -> HttpResponseRedirect | None:
    """Return a redirect to the search for the public id alone, if a key was pasted.

    key-text.js does the same in the browser, before anything is sent: this is for those without it.
    """
    public_id = public_id_in(request.GET.get(name, ""))
    if public_id is None:
        return None
    query = request.GET.copy()
    query[name] = public_id
    return HttpResponseRedirect(f"{request.path}?{query.urlencode()}")


class PastedKeyAdmin(PetstoreModelAdmin):
    """A list in which a key that was pasted whole is looked for by its public id."""

    class Media:
        js = ["petstore/key-text.js"]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return without_secret(request) or super().changelist_view(request, extra_context)
