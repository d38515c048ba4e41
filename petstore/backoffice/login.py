"""The sign-in form, its rate limits, and known browsers."""

import logging
import math
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

from petstore.api.client_ip import get_client_network
from petstore.backoffice.text import format_count

logger = logging.getLogger(__name__)

LOGINS_PER_ADDRESS = "10/m"
LOGINS_PER_NAME = "10/5m"  # Also per known browser.
KNOWN_BROWSER_AGE = timedelta(days=365)
UNLOCK_SECONDS = 600  # Must exceed the windows above.


def normalize_username(username: str) -> str:
    """Normalize like Django's UsernameField, so that all spellings share a counter."""
    return unicodedata.normalize("NFKC", username.strip())


def count_attempt(request: HttpRequest, username: str) -> int:
    """Count a sign-in attempt. After too many attempts, return the seconds to wait, else 0.

    A known browser has its own limit. Other browsers share the limits of their address and of the name. An
    attempt that is rejected for its address does not count for the name.
    """
    try:
        for group, key, rate in get_limits(request, normalize_username(username)):
            usage = get_usage(request, group=group, key=lambda *_, key=key: key, rate=rate, increment=True)
            # django-ratelimit reports a limit of 0 if the window has just ended.
            if usage["should_limit"] and usage["limit"]:
                # The window includes the second that django-ratelimit reports as its end.
                return max(1, int(usage["time_left"]) + 1)
    except sqlite3.Error:  # Fail open, so that staff can sign in without counters.
        logger.exception("The counters of sign-in attempts are unavailable.")
    return 0


def get_limits(request: HttpRequest, username: str) -> list[tuple[str, str, str]]:
    """Return group, key and rate of each counter. `unlock` changes the keys."""
    unlocked_at = cache.get(f"sign-in unlocked {username}")
    suffix = f"\0{username}\0{unlocked_at}" if unlocked_at else ""
    if browser_id := get_known_browser_id(request, username):
        return [("login by known browser", browser_id + suffix, LOGINS_PER_NAME)]
    return [
        ("login by address", get_client_network(request) + suffix, LOGINS_PER_ADDRESS),
        ("login by name", username + suffix, LOGINS_PER_NAME),
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
    """Format a time to wait in seconds or in minutes, rounded up."""
    if seconds > 90:
        return format_count(math.ceil(seconds / 60), "minute")
    return format_count(seconds, "second")


class LoginForm(AuthenticationForm):
    """Checks the rate limits before the password."""

    # Unknown names and wrong passwords get the same message, so that names can't be probed.
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
# A signed cookie marks a browser in which the user has signed in before. This browser has its own rate
# limit, so wrong passwords from elsewhere do not lock the user out. Password and code are still required.
# The cookie becomes invalid when the password or the second factor changes. Otherwise, an attacker with the
# password could collect cookies and try codes with each of them. Several users may share a browser.


def get_signer(user: User) -> TimestampSigner:
    device = TOTPDevice.objects.filter(user=user, confirmed=True).values_list("pk", flat=True).first()
    return TimestampSigner(salt=f"known browser {user.pk} {user.password} {device}")


def get_cookie_name(user: User) -> str:
    return f"{settings.KNOWN_BROWSER_COOKIE_NAME}-{user.pk}"


def remember_browser(response: HttpResponse, user: User) -> None:
    """Set the cookie. Call this only after a complete sign-in, including the second factor."""
    response.set_cookie(
        get_cookie_name(user),
        get_signer(user).sign(get_random_string(22)),
        max_age=KNOWN_BROWSER_AGE,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def get_known_browser_id(request: HttpRequest, username: str) -> str:
    """Return the browser's ID if its cookie for this user is valid, else an empty string."""
    user = User.objects.filter(username=username).first()
    try:
        if user is not None and (cookie := request.COOKIES.get(get_cookie_name(user))):
            return get_signer(user).unsign(cookie, KNOWN_BROWSER_AGE)
    except BadSignature:
        pass
    return ""
