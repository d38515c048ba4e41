"""Deployment checks of the peppers."""

from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import Tags, register

MIN_PEPPER_BYTES = 32


@register(Tags.security, deploy=True)
def peppers_are_long(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """Warn about short peppers and about SECRET_KEY as a pepper."""
    found: list[checks.CheckMessage] = []
    for number, secret in settings.API_KEY_PEPPERS.items():
        if len(secret) < MIN_PEPPER_BYTES:
            text = f"Pepper {number} of API_KEY_PEPPERS is shorter than {MIN_PEPPER_BYTES} bytes."
            found.append(checks.Warning(text, hint="Add a longer one.", id="accounts.W001"))
        if secret.decode() == settings.SECRET_KEY:
            text = f"Pepper {number} of API_KEY_PEPPERS is SECRET_KEY."
            found.append(checks.Warning(text, hint="Give each a secret of its own.", id="accounts.W002"))
    return found
