"""What no page can use is refused with a page that says so, and a session that is over is ended."""

import logging
import re
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from django.conf import settings
from django.db import DataError, IntegrityError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.response import SimpleTemplateResponse

from petstore.backoffice.sessions import end_if_due

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


def guarded(view: View) -> View:
    """Make a view answer with a page, not a failure, when the database can't take what was sent.

    A session that is over is answered as a stranger is.
    """

    @wraps(view)
    def guarded_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if reason := why_unusable(request):
            return refusal(request, 400, reason)
        try:
            end_if_due(request)
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
