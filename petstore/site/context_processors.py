"""Context processors."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest


def support(request: HttpRequest) -> dict[str, Any]:
    """Add the environment, whether mail is sent, and the contacts, which may be empty."""
    return {
        "support_url": settings.SUPPORT_URL,
        "support_email": settings.SUPPORT_EMAIL,
        "environment": "demo" if settings.DEMO_KEY else settings.ENVIRONMENT,
        "mail_is_sent": bool(settings.MAIL_SERVER),
    }
