"""Context processors."""

from contextlib import suppress
from typing import Any

from django.conf import settings
from django.db import Error
from django.http import HttpRequest


def support(request: HttpRequest) -> dict[str, Any]:
    """Add the contacts, which may be empty, the environment, and flags for mail, sign-in and sign-up."""

    def is_signed_in() -> bool:
        # Reading the session makes a response vary by cookie, which pages without a session should not.
        # A request that is rejected before AuthenticationMiddleware has no user.
        if settings.SESSION_COOKIE_NAME in request.COOKIES and hasattr(request, "user"):
            with suppress(Error):  # The home page and error pages work without a database.
                return bool(request.user.is_authenticated)
        return False

    return {
        "support_url": settings.SUPPORT_URL,
        "support_email": settings.SUPPORT_EMAIL,
        "environment": "demo" if settings.DEMO_KEY else settings.ENVIRONMENT,
        "mail_is_sent": bool(settings.MAIL_SERVER),
        "is_signed_in": is_signed_in,
        "sign_up_is_open": settings.SIGN_UP == "open",
    }
