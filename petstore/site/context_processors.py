"""Context processors."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest


def support(request: HttpRequest) -> dict[str, Any]:
    """Add `support_url` and `support_email`, each of which may be empty, and `environment`."""
    environment = "demo" if settings.DEMO_KEY else settings.ENVIRONMENT
    contacts = {"support_url": settings.SUPPORT_URL, "support_email": settings.SUPPORT_EMAIL}
    return contacts | {"environment": environment}
