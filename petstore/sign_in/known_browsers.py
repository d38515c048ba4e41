"""Browsers in which a user has signed in before.

A signed cookie gives such a browser its own rate limit, so wrong passwords from elsewhere do not lock the
user out. Password and code are still required. The cookie becomes invalid when the password changes, and
when the user's oldest second factor is added or removed. Otherwise, an attacker with the password could
collect cookies before that, and try codes with each of them. Several users may share a browser.
"""

from datetime import timedelta

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.models import User
from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import get_random_string

KNOWN_BROWSER_AGE = timedelta(days=365)


def get_signer(user: User) -> TimestampSigner:
    factors = Authenticator.objects.filter(user=user).exclude(type=Authenticator.Type.RECOVERY_CODES)
    first_id = factors.order_by("pk").values_list("pk", flat=True).first()
    return TimestampSigner(salt=f"known browser {user.pk} {user.password} {first_id}")


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
