"""Browsers that a user has signed in with before: a signed cookie gives each its own budget of attempts.

Wrong passwords from elsewhere then don't lock out the user. The cookie opens nothing: password and code are
still required. It becomes void when the password or the second factor changes: a thief who collects cookies
with the password alone must not get a budget of codes for each. Colleagues may share a browser.
"""

from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import get_random_string
from django_otp.plugins.otp_totp.models import TOTPDevice

COOKIE_AGE = timedelta(days=365)


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
