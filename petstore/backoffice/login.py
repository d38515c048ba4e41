"""Signing in: who may try, how often, and from which browsers."""

import logging
import sqlite3
import time
import unicodedata
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import get_random_string
from django_otp import devices_for_user
from django_otp.plugins.otp_totp.models import TOTPDevice
from django_ratelimit.core import get_usage
from unfold.forms import AuthenticationForm

from petstore.api.client_ip import client_network
from petstore.backoffice.text import pluralize

logger = logging.getLogger(__name__)

LOGINS_PER_ADDRESS = "10/m"
LOGINS_PER_NAME = "10/5m"  # Of a known browser as well.
COOKIE_AGE = timedelta(days=365)  # Of a known browser.
UNLOCK_SECONDS = 600  # Longer than any of these windows.


def normalize_username(name: str) -> str:
    """Return a name in the form that Django looks up."""
    return unicodedata.normalize("NFKC", name.strip())


def count_attempt(request: HttpRequest, name: str) -> int:
    """Count an attempt to sign in as somebody. Return the seconds to wait if there were too many, else 0.

    A known browser has its own budget. Any other shares those of its address and of the name; an attempt
    rejected for its address doesn't count for the name.
    """
    try:
        for group, key, rate in budgets(request, normalize_username(name)):
            usage = get_usage(request, group=group, key=lambda *_, key=key: key, rate=rate, increment=True)
            if usage["should_limit"] and usage["limit"]:  # 0: the counter ended while it was asked.
                # django-ratelimit still counts in the second it names as the end: the next one is free.
                return max(1, int(usage["time_left"]) + 1)
    except sqlite3.Error:  # Staff must get in while the counters are away: the password still guards.
        logger.exception("The counters of attempts to sign in can't be reached.")
    return 0


def budgets(request: HttpRequest, name: str) -> list[tuple[str, str, str]]:
    """Return the counters of an attempt: group, key and rate of each. After `unlock` they have new keys."""
    unlocked_at = cache.get(f"sign-in unlocked {name}")
    suffix = f"\0{name}\0{unlocked_at}" if unlocked_at else ""
    if browser := known_browser(request, name):
        return [("login by known browser", browser + suffix, LOGINS_PER_NAME)]
    return [
        ("login by address", client_network(request) + suffix, LOGINS_PER_ADDRESS),
        ("login by name", name + suffix, LOGINS_PER_NAME),
    ]


def unlock(user: User) -> None:
    """Start new budgets for the name and its known browsers, and let codes be tried without a delay."""
    cache.set(f"sign-in unlocked {user.username}", int(time.time()), UNLOCK_SECONDS)
    for device in devices_for_user(user):
        reset_throttling(device)


def reset_throttling(device: Any) -> None:
    """Let the next code be tried at once, whatever wrong ones came before."""
    device.throttling_failure_count = 0
    device.save(update_fields=["throttling_failure_count"])


def describe_wait(seconds: int) -> str:
    """Return a wait as people say it, rounded up."""
    return pluralize(-(-seconds // 60), "minute") if seconds > 90 else pluralize(seconds, "second")


class LoginForm(AuthenticationForm):
    """Refuses before the password is looked at, once there were too many attempts."""

    # Nothing tells a wrong name from a wrong password.
    error_messages = AuthenticationForm.error_messages | {
        "invalid_login": "That name and password do not match an account. Both are case-sensitive."
    }
    seconds_to_wait = 0

    def clean(self) -> dict[str, Any]:
        assert self.request is not None
        self.seconds_to_wait = count_attempt(self.request, self.request.POST.get("username", ""))
        if self.seconds_to_wait:
            wait = describe_wait(self.seconds_to_wait)
            raise ValidationError(f"Too many attempts to sign in. Try again in {wait}.")
        return super().clean()


# --- Known browsers
#
# A signed cookie gives a browser in which a user has signed in before its own budget of attempts: wrong
# passwords from elsewhere then don't lock out the user. The cookie opens nothing: password and code are
# still required. It becomes void when the password or the second factor changes: a thief who collects
# cookies with the password alone must not get a budget of codes for each. Colleagues may share a browser.


def signer(user: User) -> TimestampSigner:
    device = TOTPDevice.objects.filter(user=user, confirmed=True).values_list("pk", flat=True).first()
    return TimestampSigner(salt=f"known browser {user.pk} {user.password} {device}")


def cookie_name(user: User) -> str:
    return f"{settings.KNOWN_BROWSER_COOKIE_NAME}-{user.pk}"


def remember_browser(response: HttpResponse, user: User) -> None:
    """Give the browser a new cookie. Call it only after a complete sign-in, second factor included."""
    response.set_cookie(
        cookie_name(user),
        signer(user).sign(get_random_string(22)),
        max_age=COOKIE_AGE,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def known_browser(request: HttpRequest, username: str) -> str:
    """Return the id of a browser that this user has signed in with before; empty for any other."""
    user = User.objects.filter(username=username).first()
    try:
        if user is not None and (cookie := request.COOKIES.get(cookie_name(user))):
            return signer(user).unsign(cookie, COOKIE_AGE)
    except BadSignature:
        pass
    return ""
