"""Pages instead of failures: what can't be used, is not there, or not for everybody."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib.auth import get_permission_codename
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db import DataError, IntegrityError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.response import SimpleTemplateResponse

from petstore.backoffice.sessions import log_out_if_expired

logger = logging.getLogger(__name__)

View = Callable[..., HttpResponse]

UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")  # NUL and lone surrogates (UTF-7, for one, spells them).
LONGEST = 250  # Characters of a value in the address: a search text, a filter, a page number.
LONGEST_ADDRESS = 4000  # Of the path, and of a value that holds another page's address.
HOLDS_AN_ADDRESS = {"next", "_changelist_filters"}

NOT_TEXT = "Something you sent has characters that can't be stored. Go back, remove them, and try again."
TOO_LONG = "Something in the address is too long. Go back, shorten it, and try again."
NOT_USABLE = "Something you sent is out of range. Go back, correct it, and try again."
CHANGED_MEANWHILE = "Somebody changed the same thing just now. Go back, reload the page, and try again."


def texts(request: HttpRequest) -> Iterator[str]:
    """Yield every text of the request that may reach the database."""
    yield request.path
    yield request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
    for data in (request.GET, request.POST):
        for name, values in data.lists():
            yield name
            yield from values


def why_unusable(request: HttpRequest) -> str:
    """Return what is wrong with the request as such, or nothing."""
    if any(UNSTORABLE.search(text) for text in texts(request)):
        return NOT_TEXT
    too_long = len(request.path) > LONGEST_ADDRESS or any(
        len(value) > (LONGEST_ADDRESS if name in HOLDS_AN_ADDRESS else LONGEST)
        for name, values in request.GET.lists()
        for value in values
    )
    return TOO_LONG if too_long else ""


def refusal(request: HttpRequest, status: int, text: str) -> HttpResponse:
    return render(request, "error.html", {"title": "Not done", "text": text}, status=status)


def reject_bad_input(view: View) -> View:
    """Make a view answer with a page, not a failure, when the database can't take what was sent.

    A session that is over is answered as a stranger is.
    """

    @wraps(view)
    def guarded_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if reason := why_unusable(request):
            return refusal(request, 400, reason)
        try:
            log_out_if_expired(request)
            response = view(request, *args, **kwargs)
            if isinstance(response, SimpleTemplateResponse):
                response.render()  # Here, since a list is read from the database while it is shown.
        except (DataError, OverflowError):
            logger.warning("Refused what the database can't take.", exc_info=True)
            return refusal(request, 400, NOT_USABLE)
        except IntegrityError:  # The forms check first, so another request came in between.
            logger.warning("Refused a change that met another one.", exc_info=True)
            return refusal(request, 409, CHANGED_MEANWHILE)
        return response

    return guarded_view


# --- In the frame of the back office

NOT_FOUND = "There is no such page, or what it showed was deleted. Press Ctrl+K to search for it."
NOBODY = "Nobody can do this in the back office."
ASK = "Your role can't open this page. Ask an Owner."
# The right that Django's page of a model asks for, by the end of its URL's name; all others that are not in
# `list_pages` ask for `change`.
RIGHTS = {"changelist": "view", "change": "view", "history": "view", "add": "add", "delete": "delete"}


def render_errors(site: Any, view: View) -> View:
    """Make a view, which only staff get to, answer with a page of the back office where it has none."""

    @wraps(view)
    def framed_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except PermissionDenied:
            status, title, text = 403, "No access", why_refused(site, request)
        except Http404:
            status, title, text = 404, "Not found", NOT_FOUND
        response: HttpResponse = site.page(request, "error", title, text=text, **way_back(site, request))
        response.status_code = status
        return response

    return framed_view


def admin_of(site: Any, request: HttpRequest) -> tuple[Any, str]:
    """Return the admin of a page's model, None for any other page, and the end of the page's URL's name."""
    name = (request.resolver_match and request.resolver_match.url_name) or ""
    for model, admin in site._registry.items():
        if name.startswith(start := f"{model._meta.app_label}_{model._meta.model_name}_"):
            return admin, name.removeprefix(start)
    return None, name


def way_back(site: Any, request: HttpRequest) -> dict[str, Any]:
    """Return the list that a page belongs to, for who may see it."""
    admin, _ = admin_of(site, request)
    if admin is None or not admin.has_view_permission(request):
        return {}
    return {"list_link": admin.list_url(), "list_name": admin.opts.verbose_name_plural}


def why_refused(site: Any, request: HttpRequest) -> str:
    """Return the sentence that names who may open the page."""
    admin, page = admin_of(site, request)
    if admin is None:
        return ASK
    right = (RIGHTS | dict(admin.list_pages.values())).get(page, "change")
    if not getattr(admin, f"can_{right}", True) or request.user.is_superuser:
        return NOBODY
    groups = Group.objects.filter(
        permissions__content_type__app_label=admin.opts.app_label,
        permissions__codename=get_permission_codename(right, admin.opts),
    )
    roles = groups.order_by("name").values_list("name", flat=True)
    return f"Your role can't open this page. Roles that can: {', '.join(roles)}." if roles else ASK
