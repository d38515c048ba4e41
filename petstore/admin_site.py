"""The back office as a whole: its login, and what holds for every page of it."""

from __future__ import annotations

import logging
import re
import sqlite3
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.admin.widgets import AutocompleteSelect
from django.core.exceptions import ValidationError
from django.db import DataError, IntegrityError, models
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.response import SimpleTemplateResponse, TemplateResponse
from django_ratelimit.core import get_usage

from petstore.addresses import client_network

logger = logging.getLogger(__name__)

View = Callable[..., HttpResponse]

# --- The login -----------------------------------------------------------------------------------

LOGINS_PER_ADDRESS = "10/m"
LOGINS_PER_NAME = "10/5m"  # Lower would let anybody lock out a colleague whose name is known for long.


def user_name(group: str, request: HttpRequest) -> str:
    """Return the name that somebody signs in with, in the form that Django looks up."""
    return unicodedata.normalize("NFKC", request.POST.get("username", "").strip())


def count_attempt(request: HttpRequest) -> int:
    """Count an attempt to sign in. Return the seconds to wait if there were too many, else 0.

    An attempt refused for its address doesn't count for the name: flooding from one place locks nobody out.
    """
    for group, key, rate in (
        ("login by address", lambda group, request: client_network(request), LOGINS_PER_ADDRESS),
        ("login by name", user_name, LOGINS_PER_NAME),
    ):
        try:
            usage = get_usage(request, group=group, key=key, rate=rate, increment=True)
        except sqlite3.Error:  # Staff must get in while the counters are away: the password still guards.
            logger.exception("The counters of attempts to sign in can't be reached.")
            continue
        if usage["should_limit"]:
            # django-ratelimit still counts in the second it names as the end: the next one is free.
            return max(1, int(usage["time_left"]) + 1)
    return 0


def in_words(seconds: int) -> str:
    """Return a wait as people say it, rounded up."""
    if seconds > 90:
        return f"{-(-seconds // 60)} minutes"
    return "1 second" if seconds == 1 else f"{seconds} seconds"


class LoginForm(AdminAuthenticationForm):
    """Refuses before the password is looked at, once there were too many attempts."""

    seconds_to_wait = 0

    def clean(self) -> dict[str, Any]:
        """Count the attempt, then check name and password."""
        assert self.request is not None
        self.seconds_to_wait = count_attempt(self.request)
        if self.seconds_to_wait:
            raise ValidationError(
                f"Too many attempts to sign in. Try again in {in_words(self.seconds_to_wait)}."
            )
        return super().clean()


# --- Input that no page can use ------------------------------------------------------------------

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
    """Return a page that says why nothing was done."""
    return render(request, "error.html", {"title": "Not done", "text": text}, status=status)


def guarded(view: View) -> View:
    """Make a view answer with a page, not a failure, when the database can't take what was sent."""

    @wraps(view)
    def guarded_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if reason := why_unusable(request):
            return refusal(request, 400, reason)
        try:
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


# --- The site and its pages ----------------------------------------------------------------------


class PetstoreAdminSite(admin.AdminSite):
    """The back office. Django's extension points only, so that another look can be put on it."""

    site_header = "Pet Store back office"
    site_title = "Pet Store"
    index_title = "What do you want to look after?"
    login_form = LoginForm

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Guard every page."""
        return guarded(super().admin_view(view, cacheable))

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the login, or check it. Too many attempts: 429, and when to come back."""
        response = guarded(super().login)(request, extra_context)
        if isinstance(response, TemplateResponse):
            form = (response.context_data or {}).get("form")
            if isinstance(form, LoginForm) and form.seconds_to_wait:
                response.status_code = 429
                response["Retry-After"] = str(form.seconds_to_wait)
        return response


class SafeAutocompleteSelect(AutocompleteSelect):
    """Shows a value that can be no id as nothing chosen; Django's own raises while it is shown again."""

    def optgroups(self, name: str, value: Sequence[str], attr: Any = None) -> Any:
        """Return the option that is chosen."""
        try:
            return super().optgroups(name, value, attr)
        except (ValueError, OverflowError):
            return super().optgroups(name, [], attr)


class PetstoreModelAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Generic in its stubs only.
    """The pages of one model, for tables of any size."""

    actions: Any = None  # An action on a whole list would load all of it.
    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow the list's own filters only: any other lookup would also find what isn't shown."""
        entries = self.get_list_filter(request)
        if lookup in [getattr(entry, "parameter_name", None) for entry in entries]:
            return True
        filters = [entry for entry in entries if isinstance(entry, str)]
        return lookup.split("__", maxsplit=1)[0] in filters and lookup.endswith(("__exact", "__isnull"))

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Fill in nothing from the address: Django would hand its text to the widgets unchecked."""
        return {}

    def formfield_for_foreignkey(
        self, db_field: models.ForeignKey[Any], request: HttpRequest, **kwargs: Any
    ) -> forms.ModelChoiceField[Any] | None:
        """Return the form field, with a widget that bears any input."""
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs["widget"] = SafeAutocompleteSelect(db_field, self.admin_site)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return what would be deleted, or some of what forbids it: Django would load and list it all."""
        if examples := list(protecting(self.model, objs)):
            return [], {}, set(), examples
        return super().get_deleted_objects(objs, request)


EXAMPLES = 10


def protecting(model: type[models.Model], objs: Iterable[models.Model]) -> Iterator[str]:
    """Yield a few of the rows, of each kind, that must not lose what they refer to."""
    for relation in model._meta.related_objects:
        if relation.on_delete is models.PROTECT:
            rows = relation.related_model._base_manager.filter(**{f"{relation.field.name}__in": objs})
            name = relation.related_model._meta.verbose_name
            found = [f"{str(name).capitalize()}: {row}" for row in rows[: EXAMPLES + 1]]
            yield from found[:EXAMPLES]
            if len(found) > EXAMPLES:
                yield "and more"


# --- Histories -----------------------------------------------------------------------------------


class EventFormSet(forms.BaseInlineFormSet):  # type: ignore[type-arg]  # Generic in its stubs only.
    """Shows what happened and reads nothing: forged form counts would make Django's own fail."""

    def __init__(self, data: Any = None, files: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def is_valid(self) -> bool:
        """Accept: there is nothing to check."""
        return True

    def save(self, commit: bool = True) -> list[Any]:
        """Save nothing."""
        self.new_objects, self.changed_objects, self.deleted_objects = [], [], []
        return []


class HistoryInline(admin.TabularInline):  # type: ignore[type-arg]  # Generic in its stubs only.
    """What happened to a row, the last first. Shown, never written: the models' verbs do that."""

    formset = EventFormSet
    can_delete = False
    extra = 0

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Forbid."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Forbid: what happened has happened."""
        return False
