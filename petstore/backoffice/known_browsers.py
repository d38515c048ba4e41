"""Browsers that a user has signed in with before: a signed cookie gives each its own budget of attempts.

Wrong passwords from elsewhere then don't lock out the user. The cookie opens nothing: password and code are
still required. It becomes void when the password changes.
"""

from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import get_random_string

COOKIE_AGE = timedelta(days=365)


def signer(user: User) -> TimestampSigner:
    return TimestampSigner(salt=f"known browser {user.pk} {user.password}")


def remember_browser(response: HttpResponse, user: User) -> None:
    """Give the browser a new cookie. Call it only after a complete sign-in, second factor included."""
    response.set_cookie(
        settings.KNOWN_BROWSER_COOKIE_NAME,
        signer(user).sign(get_random_string(22)),
        max_age=COOKIE_AGE,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def known_browser(request: HttpRequest, username: str) -> str:
    """Return the id of a browser that this user has signed in with before; empty for any other."""
    cookie = request.COOKIES.get(settings.KNOWN_BROWSER_COOKIE_NAME, "")
    user = User.objects.filter(username=username).first() if cookie else None
    try:
        return signer(user).unsign(cookie, COOKIE_AGE) if user is not None else ""
    except BadSignature:
        return ""
