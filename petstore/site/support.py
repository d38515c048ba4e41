"""Whom the readers of the pages ask for a key, a larger plan or help."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest


def support(request: HttpRequest) -> dict[str, Any]:
    """Give every template `support_url` and `support_email`, each empty where there is none."""
    return {"support_url": settings.SUPPORT_URL, "support_email": settings.SUPPORT_EMAIL}
