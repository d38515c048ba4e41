"""Error pages of the back office: bad input, conflicts, 403 and 404."""

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

UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")  # NUL and lone surrogates, which UTF-7 can encode.
MAX_VALUE_LENGTH = 250  # Characters of a query parameter: a search term, a filter, a page number.
MAX_URL_LENGTH = 4000  # Of the path, and of parameters that hold a URL.
URL_PARAMETERS = {"next", "_changelist_filters"}

NOT_TEXT = "Your input contains characters that can't be stored. Go back, remove them and try again."
TOO_LONG = "Part of the URL is too long. Go back, shorten it and try again."
NOT_USABLE = "A value is out of range. Go back, correct it and try again."
CONFLICT = "Another user has just changed the same data. Go back, reload the page and try again."


def texts(request: HttpRequest) -> Iterator[str]:
    """Yield every string of the request that may reach the database."""
    yield request.path
    yield request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
    for data in (request.GET, request.POST):
        for name, values in data.lists():
            yield name
            yield from values


def input_error(request: HttpRequest) -> str:
    if any(UNSTORABLE.search(text) for text in texts(request)):
        return NOT_TEXT
    too_long = len(request.path) > MAX_URL_LENGTH or any(
        len(value) > (MAX_URL_LENGTH if name in URL_PARAMETERS else MAX_VALUE_LENGTH)
        for name, values in request.GET.lists()
        for value in values
    )
    return TOO_LONG if too_long else ""


def error_page(request: HttpRequest, status: int, text: str) -> HttpResponse:
    return render(request, "error.html", {"title": "Request rejected", "text": text}, status=status)


def reject_bad_input(view: View) -> View:
    """Wrap a view: input that the database cannot store gets 400, a conflict 409, not 500.

    Users whose session has expired are treated as anonymous.
    """

    @wraps(view)
    def guarded_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if reason := input_error(request):
            return error_page(request, 400, reason)
        try:
            log_out_if_expired(request)
            response = view(request, *args, **kwargs)
            if isinstance(response, SimpleTemplateResponse):
                response.render()  # Changelists query the database while they render.
        except (DataError, OverflowError):
            logger.warning("Rejected input that the database cannot store.", exc_info=True)
            return error_page(request, 400, NOT_USABLE)
        except IntegrityError:  # Forms validate first, so another request has just committed.
            logger.warning("Rejected a change that conflicts with another one.", exc_info=True)
            return error_page(request, 409, CONFLICT)
        return response

    return guarded_view


# --- Error pages for staff

NOT_FOUND = "This page does not exist, or its subject was deleted. Press Ctrl+K to search for it."
NOT_ALLOWED = "This is not possible in the back office."
ASK_OWNER = "Your role can't open this page. Ask an Owner."
# The permissions of Django's pages of a model, by the last part of the URL name. Any page that is neither
# here nor in `list_pages` requires `change`.
PERMISSIONS = {"changelist": "view", "change": "view", "history": "view", "add": "add", "delete": "delete"}


def render_errors(site: Any, view: View) -> View:
    """Wrap a view for staff: show PermissionDenied and Http404 as pages with the navigation."""

    @wraps(view)
    def framed_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except PermissionDenied:
            status, title, text = 403, "No access", denied_message(site, request)
        except Http404:
            status, title, text = 404, "Not found", NOT_FOUND
        response: HttpResponse = site.page(request, "error", title, text=text, **list_link(site, request))
        response.status_code = status
        return response

    return framed_view


def admin_of(site: Any, request: HttpRequest) -> tuple[Any, str]:
    """Return the ModelAdmin of a page, None for other pages, and the last part of the URL name."""
    name = (request.resolver_match and request.resolver_match.url_name) or ""
    for model, admin in site._registry.items():
        if name.startswith(prefix := f"{model._meta.app_label}_{model._meta.model_name}_"):
            return admin, name.removeprefix(prefix)
    return None, name


def list_link(site: Any, request: HttpRequest) -> dict[str, Any]:
    admin, _ = admin_of(site, request)
    if admin is None or not admin.has_view_permission(request):
        return {}
    return {"list_link": admin.list_url(), "list_name": admin.opts.verbose_name_plural}


def denied_message(site: Any, request: HttpRequest) -> str:
    """Name the roles that may open the page."""
    admin, page = admin_of(site, request)
    if admin is None:
        return ASK_OWNER
    permission = (PERMISSIONS | dict(admin.list_pages.values())).get(page, "change")
    if not getattr(admin, f"can_{permission}", True) or request.user.is_superuser:
        return NOT_ALLOWED
    groups = Group.objects.filter(
        permissions__content_type__app_label=admin.opts.app_label,
        permissions__codename=get_permission_codename(permission, admin.opts),
    )
    roles = groups.order_by("name").values_list("name", flat=True)
    return f"Your role can't open this page. Roles that can: {', '.join(roles)}." if roles else ASK_OWNER
