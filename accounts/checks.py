"""System checks of API_KEY_PEPPERS, run by `check --deploy`."""

from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import Tags, register

MIN_PEPPER_BYTES = 32


@register(Tags.security, deploy=True)
def check_peppers(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """Warn about short peppers and about SECRET_KEY as a pepper."""
    warnings: list[checks.CheckMessage] = []
    for number, pepper in settings.API_KEY_PEPPERS.items():
        if len(pepper) < MIN_PEPPER_BYTES:
            message = f"Pepper {number} of API_KEY_PEPPERS is shorter than {MIN_PEPPER_BYTES} bytes."
            hint = "Add a longer pepper with a higher number."
            warnings.append(checks.Warning(message, hint=hint, id="accounts.W001"))
        if pepper.decode() == settings.SECRET_KEY:
            message = f"Pepper {number} of API_KEY_PEPPERS is the same as SECRET_KEY."
            hint = "Add another pepper with a higher number."
            warnings.append(checks.Warning(message, hint=hint, id="accounts.W002"))
    return warnings
