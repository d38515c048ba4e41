"""Rate limits of passwords, codes, mails and passkey challenges."""

import math
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import caches
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin
from django_ratelimit.core import get_usage

from petstore.api.client_ip import get_client_network
from petstore.sign_in.known_browsers import get_known_browser_id
from petstore.site.page_limit import count_page
from petstore.text import format_count

ATTEMPTS_PER_ADDRESS = "10/m"
ATTEMPTS_PER_NAME = "10/5m"  # Also per known browser.
CODES_PER_NAME = "50/d"  # Codes have six digits, and three are valid at any time.
MAILS_PER_ADDRESS = "10/h"
MAILS_PER_EMAIL = "5/h"
CHALLENGES_PER_ADDRESS = "30/m"  # Each creates a session.
CHANGES_PER_DAY = "100/d"  # Of each kind that the audit trail records, which is never pruned.
UNLOCK_SECONDS = 2 * 24 * 60 * 60  # Must exceed the windows above.
SECONDS_TO_WAIT = "petstore.seconds_to_wait"  # In request.META, if an attempt was rejected.

View = Callable[..., HttpResponseBase]
Limit = tuple[str, str, str]  # Group and key of the counter, and its rate.


def count_attempt(request: HttpRequest, limits: list[Limit]) -> int:
    """Count an attempt. If one of the limits is exceeded, return the seconds to wait, else 0.

    An attempt that one limit rejects does not count for those after it, and gets the status 429.
    """
    for group, key, rate in limits:
        usage = get_usage(request, group=group, key=lambda *_, key=key: key, rate=rate, increment=True)
        # django-ratelimit reports a limit of 0 if the window has just ended.
        if usage["should_limit"] and usage["limit"]:
            # The window includes the second that django-ratelimit reports as its end.
            seconds = max(1, int(usage["time_left"]) + 1)
            request.META[SECONDS_TO_WAIT] = seconds
            return seconds
    return 0


def check_limits(request: HttpRequest, limits: list[Limit]) -> None:
    """Count an attempt to submit a form. Raises ValidationError after too many."""
    if seconds := count_attempt(request, limits):
        raise ValidationError(f"Too many attempts. Try again in {describe_wait(seconds)}.")


def render_too_many(request: HttpRequest, seconds: int) -> HttpResponse:
    text = f"You have made this change too many times today. Try again in {describe_wait(seconds)}."
    return render(request, "error.html", {"title": "Too many changes", "text": text})


def limit_changes(view: View) -> View:
    """Limit the submissions of a page by its signed-in user."""
    name = getattr(view, "view_class", view).__name__

    @wraps(view)
    def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method == "POST" and request.user.is_authenticated:
            limit = f"change by {name}", str(request.user.pk), CHANGES_PER_DAY
            if seconds := count_attempt(request, [limit]):
                return render_too_many(request, seconds)
        return view(request, *args, **kwargs)

    return limited


def check_sign_in_limits(request: HttpRequest, username: str, *, is_code: bool = False) -> None:
    """Count an attempt to enter a password or code. `unlock` changes the keys of the counters.

    A known browser has its own limit. Other browsers share those of their address and of the name.
    """
    unlocked_at = caches[settings.RATELIMIT_USE_CACHE].get(f"sign-in unlocked {username}")
    suffix = f"\0{username}\0{unlocked_at}" if unlocked_at else ""
    subject = get_known_browser_id(request, username) or username
    limits = [("login by name", subject + suffix, ATTEMPTS_PER_NAME)]
    if subject == username:
        limits.insert(0, ("login by address", get_client_network(request) + suffix, ATTEMPTS_PER_ADDRESS))
    if is_code:
        limits.append(("code by name", subject + suffix, CODES_PER_NAME))
    check_limits(request, limits)


def get_mail_limits(request: HttpRequest, email: str) -> list[Limit]:
    return [
        ("mail by address", get_client_network(request), MAILS_PER_ADDRESS),
        ("mail", email, MAILS_PER_EMAIL),
    ]


def unlock(user: User) -> None:
    """Reset the limits of the name and its known browsers."""
    counters = caches[settings.RATELIMIT_USE_CACHE]
    counters.set(f"sign-in unlocked {user.username}", int(time.time()), UNLOCK_SECONDS)


def describe_wait(seconds: int) -> str:
    """Format a time to wait in seconds, minutes or hours, rounded up."""
    if seconds > 5400:
        return format_count(math.ceil(seconds / 3600), "hour")
    if seconds > 90:
        return format_count(math.ceil(seconds / 60), "minute")
    return format_count(seconds, "second")


class RateLimitMiddleware(MiddlewareMixin):
    """Limits the pages of each client network, and sets the status of rejected attempts."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        seconds = count_page(get_client_network(request))
        if not seconds:
            return None
        request.META[SECONDS_TO_WAIT] = seconds
        text = f"Too many requests come from your network. Try again in {describe_wait(seconds)}.\n"
        return HttpResponse(text, "text/plain; charset=utf-8")

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if seconds := request.META.get(SECONDS_TO_WAIT):
            response.status_code = 429
            response["Retry-After"] = str(seconds)
        return response
