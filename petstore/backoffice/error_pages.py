"""Error pages for staff and customers: bad input, conflicts, 403 and 404."""

import logging
import re
from collections.abc import Callable, Iterator
from functools import wraps
from itertools import chain
from typing import Any

from allauth.account.adapter import get_adapter
from allauth.core.exceptions import ReauthenticationRequired
from django.conf import settings
from django.contrib import admin
from django.contrib.auth import get_permission_codename
from django.contrib.auth.models import Group
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import (
    ObjectDoesNotExist,
    PermissionDenied,
    RequestDataTooBig,
    TooManyFieldsSent,
    TooManyFilesSent,
    ValidationError,
)
from django.db import DatabaseError, DataError, IntegrityError
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseNotAllowed,
    QueryDict,
)
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers
from django.utils.deprecation import MiddlewareMixin

from petstore.api.errors import ErrorCode
from petstore.api.request_headers import BODY_ERROR
from petstore.backoffice.sessions import CUSTOMER_PAGES, STAFF_PAGES, log_out_if_expired
from petstore.observability.redaction import contains_key
from petstore.text import FORM_TOO_LARGE

logger = logging.getLogger(__name__)

View = Callable[..., HttpResponse]

# Generic views handle PUT as POST, and DELETE without their form, so they would pass by limits and checks.
METHODS = ["GET", "HEAD", "POST"]
MAX_VALUE_LENGTH = 250  # Characters of a query parameter: SQLite rejects long patterns.
MAX_URL_LENGTH = 4000  # Of the path, and of parameters that hold a URL.
URL_PARAMETERS = {"next", "_changelist_filters"}
UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")  # NUL and lone surrogates.

BAD_CHARACTERS = "Your input contains characters that can't be stored. Go back, remove them and try again."
REDACTED_FIELDS = {"q", "s", "reason"}  # Searches are not stored, and ReasonForm redacts reasons.
CONTAINS_KEY = "Your input contains an API key, which would be stored. Go back, remove it and try again."
TOO_LONG = "Part of the URL is too long. Go back, shorten it and try again."
OUT_OF_RANGE = "A value is out of range. Go back, correct it and try again."
CONFLICT = "Another user has just changed the same data. Go back, reload the page and try again."


def get_input_texts(request: HttpRequest) -> Iterator[str]:
    """Yield every string of the request that may reach the database."""
    yield request.path
    yield request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
    for data in (request.GET, request.POST):
        for name, values in data.lists():
            yield name
            yield from values


def check_input(request: HttpRequest) -> str:
    """Return the error message for bad input, or an empty string."""
    if any(UNSTORABLE.search(text) for text in get_input_texts(request)):
        return BAD_CHARACTERS
    stored = (values for name, values in request.POST.lists() if name not in REDACTED_FIELDS)
    sent = [request.META.get("HTTP_USER_AGENT", ""), *chain(*stored)]
    if any(map(contains_key, sent)):  # Of a sign-in, the list of sessions stores the User-Agent.
        return CONTAINS_KEY
    for name, values in request.GET.lists():
        if max(map(len, values)) > (MAX_URL_LENGTH if name in URL_PARAMETERS else MAX_VALUE_LENGTH):
            return TOO_LONG
    return TOO_LONG if len(request.path) > MAX_URL_LENGTH else ""


def render_error(request: HttpRequest, status: int, text: str) -> HttpResponse:
    return render(request, "error.html", {"title": "Request rejected", "text": text}, status=status)


class SignedInPagesMiddleware(MiddlewareMixin):
    """Ends expired sessions. Rejects other METHODS, input that can't be stored, and conflicting changes.

    Applies to the pages of staff and customers, of which those of customers are never cached.
    """

    def process_view(self, request: HttpRequest, *view: Any) -> HttpResponse | None:
        if not request.path_info.startswith((STAFF_PAGES, CUSTOMER_PAGES)):
            return None
        if request.method not in METHODS:
            return HttpResponseNotAllowed(METHODS)
        if error := check_input(request):
            return render_error(request, 400, error)
        log_out_if_expired(request)
        return None

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, ReauthenticationRequired):
            # django-allauth would store the form in the session, and process it later for any user of it.
            methods = get_adapter().get_reauthentication_methods(request.user)
            return redirect_to_login(request.get_full_path(), methods[0]["url"] if methods else None)
        if isinstance(exception, DataError | OverflowError):
            logger.warning("Rejected input that the database cannot store.", exc_info=exception)
            return render_error(request, 400, OUT_OF_RANGE)
        # Forms validate first, so another request was faster, or a time has passed in the meantime. Django
        # raises DatabaseError itself for an update of a row that has been deleted.
        is_conflict = isinstance(exception, IntegrityError | ObjectDoesNotExist | ValidationError)
        if is_conflict or type(exception) is DatabaseError:
            logger.warning("Rejected a change that conflicts with another one.", exc_info=exception)
            text = " ".join(getattr(exception, "messages", [CONFLICT]))
            return render_error(request, 409, text)
        return None

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if request.path_info.startswith(CUSTOMER_PAGES):
            add_never_cache_headers(response)
        return response


class StaffFormLimitsMiddleware(MiddlewareMixin):
    """Shows 413 in the layout of the back office, or the sign-in page if the session has ended.

    Must run before UnreadFormMiddleware, which does so for everyone else, and CsrfViewMiddleware.
    """

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        is_page = request.path.startswith(STAFF_PAGES) and getattr(view, "login_required", True)
        if not is_page or is_readable(request):
            return None
        request.POST = QueryDict()  # Rendering the page reads POST again.
        log_out_if_expired(request)
        site: Any = admin.site
        page: HttpResponse = (
            site.render_page(request, "error", title="Too large", text=FORM_TOO_LARGE, status=413)
            if site.has_permission(request)
            else site.redirect_to_sign_in(request)
        )
        return page


def is_readable(request: HttpRequest) -> bool:
    error = request.META.get(BODY_ERROR)
    if error is not None:
        return error.code is not ErrorCode.PAYLOAD_TOO_LARGE
    try:
        return request.POST is not None
    except (RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent):
        return False


# --- Error pages for staff

NOT_FOUND = "This page does not exist, or its record was deleted. Press Ctrl+K to search for it."
NOT_ALLOWED = "This is not possible in the back office."
ASK_OWNER = "Your role can't open this page. Ask an Owner."
# The permissions of Django's pages of a model, by the last part of the URL name. Pages that are not listed
# here or in `pages` require the permission `change`.
PERMISSIONS = {"changelist": "view", "change": "view", "history": "view", "add": "add", "delete": "delete"}


def render_errors(site: Any, view: View) -> View:
    """Wrap a view for staff to show PermissionDenied and Http404 as pages with the navigation."""

    @wraps(view)
    def framed_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except PermissionDenied:
            status, title, text = 403, "No access", describe_denial(site, request)
        except Http404:
            status, title, text = 404, "Not found", NOT_FOUND
        link = get_list_link(site, request)
        response: HttpResponse = site.render_page(request, "error", title, status=status, text=text, **link)
        return response

    return framed_view


def get_model_admin(site: Any, request: HttpRequest) -> tuple[Any, str]:
    """Return the ModelAdmin of the page, if it has one, and the last part of the page's URL name."""
    url_name = (request.resolver_match and request.resolver_match.url_name) or ""
    for model, model_admin in site._registry.items():
        if url_name.startswith(prefix := f"{model._meta.app_label}_{model._meta.model_name}_"):
            return model_admin, url_name.removeprefix(prefix)
    return None, url_name


def get_list_link(site: Any, request: HttpRequest) -> dict[str, Any]:
    model_admin, _ = get_model_admin(site, request)
    if model_admin is None or not model_admin.has_view_permission(request):
        return {}
    return {"list_link": model_admin.list_url(), "list_name": model_admin.opts.verbose_name_plural}


def describe_denial(site: Any, request: HttpRequest) -> str:
    """Explain a denial, with the roles that may open the page."""
    model_admin, page = get_model_admin(site, request)
    if model_admin is None:
        return ASK_OWNER
    permission = (PERMISSIONS | dict(model_admin.pages.values())).get(page, "change")
    if not getattr(model_admin, f"can_{permission}", True) or request.user.is_superuser:
        return NOT_ALLOWED
    opts, codename = model_admin.opts, get_permission_codename(permission, model_admin.opts)
    groups = Group.objects.filter(
        permissions__content_type__app_label=opts.app_label, permissions__codename=codename
    )
    roles = ", ".join(groups.order_by("name").values_list("name", flat=True))
    return f"Your role can't open this page. Roles that can: {roles}." if roles else ASK_OWNER
