"""The sign-in form, its rate limits, and known browsers."""

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
LOGINS_PER_NAME = "10/5m"  # Also per known browser.
COOKIE_AGE = timedelta(days=365)  # Of a known browser.
UNLOCK_SECONDS = 600  # Longer than the windows above.


def normalize_username(name: str) -> str:
    return unicodedata.normalize("NFKC", name.strip())  # As Django's UsernameField does.


def count_attempt(request: HttpRequest, name: str) -> int:
    """Count a sign-in attempt. Return the seconds to wait after too many, else 0.

    A known browser has its own limit. Others share the limits of their address and of the name; an attempt
    rejected for its address does not count for the name.
    """
    try:
        for group, key, rate in limits(request, normalize_username(name)):
            usage = get_usage(request, group=group, key=lambda *_, key=key: key, rate=rate, increment=True)
            if usage["should_limit"] and usage["limit"]:  # A limit of 0: the window has just ended.
                # The window includes the second that django-ratelimit reports as its end.
                return max(1, int(usage["time_left"]) + 1)
    except sqlite3.Error:  # Fail open: without counters, staff must still be able to sign in.
        logger.exception("The counters of sign-in attempts are unavailable.")
    return 0


def limits(request: HttpRequest, name: str) -> list[tuple[str, str, str]]:
    """Return group, key and rate of each counter. `unlock` changes the keys."""
    unlocked_at = cache.get(f"sign-in unlocked {name}")
    suffix = f"\0{name}\0{unlocked_at}" if unlocked_at else ""
    if browser := known_browser(request, name):
        return [("login by known browser", browser + suffix, LOGINS_PER_NAME)]
    return [
        ("login by address", client_network(request) + suffix, LOGINS_PER_ADDRESS),
        ("login by name", name + suffix, LOGINS_PER_NAME),
    ]


def unlock(user: User) -> None:
    """Reset the limits of the name and its known browsers, and the delays after wrong codes."""
    cache.set(f"sign-in unlocked {user.username}", int(time.time()), UNLOCK_SECONDS)
    for device in devices_for_user(user):
        reset_throttling(device)


def reset_throttling(device: Any) -> None:
    """End the delay that django-otp imposes after wrong codes."""
    device.throttling_failure_count = 0
    device.save(update_fields=["throttling_failure_count"])


def describe_wait(seconds: int) -> str:
    # Rounded up.
    return pluralize(-(-seconds // 60), "minute") if seconds > 90 else pluralize(seconds, "second")


class LoginForm(AuthenticationForm):
    """Rejects too many attempts before checking the password."""

    # The same message for unknown names and wrong passwords.
    error_messages = AuthenticationForm.error_messages | {
        "invalid_login": "Wrong username or password. Both are case-sensitive."
    }
    seconds_to_wait = 0

    def clean(self) -> dict[str, Any]:
        assert self.request is not None
        self.seconds_to_wait = count_attempt(self.request, self.request.POST.get("username", ""))
        if self.seconds_to_wait:
            wait = describe_wait(self.seconds_to_wait)
            raise ValidationError(f"Too many sign-in attempts. Try again in {wait}.")
        return super().clean()


# --- Known browsers
#
# A signed cookie marks a browser in which the user has signed in before. It has its own rate limit, so that
# wrong passwords from elsewhere do not lock the user out. Password and code are still required. The cookie
# becomes void when the password or the second factor changes; otherwise an attacker with the password could
# collect cookies, each with its own number of codes to try. Several users may share a browser.


def signer(user: User) -> TimestampSigner:
    device = TOTPDevice.objects.filter(user=user, confirmed=True).values_list("pk", flat=True).first()
    return TimestampSigner(salt=f"known browser {user.pk} {user.password} {device}")


def cookie_name(user: User) -> str:
    return f"{settings.KNOWN_BROWSER_COOKIE_NAME}-{user.pk}"


def remember_browser(response: HttpResponse, user: User) -> None:
    """Set the cookie. Only call this after a complete sign-in, second factor included."""
    response.set_cookie(
        cookie_name(user),
        signer(user).sign(get_random_string(22)),
        max_age=COOKIE_AGE,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def known_browser(request: HttpRequest, username: str) -> str:
    """Return the browser's id from the user's valid cookie, or an empty string."""
    user = User.objects.filter(username=username).first()
    try:
        if user is not None and (cookie := request.COOKIES.get(cookie_name(user))):
            return signer(user).unsign(cookie, COOKIE_AGE)
    except BadSignature:
        pass
    return ""
