"""System checks of the deployment, run by `check --deploy`."""

from typing import Any

from django.conf import settings
from django.core import checks


@checks.register(checks.Tags.security, deploy=True)
def check_proxies(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """Warn that pages redirect forever. Only a proxy can say that a request used HTTPS."""
    if settings.TRUSTED_PROXY_COUNT or not settings.HTTPS:
        return []
    message = "BASE_URL starts with https://, but no proxy is trusted, so pages would redirect forever."
    hint = "Set TRUSTED_PROXY_COUNT to the number of proxies in front of the service."
    return [checks.Warning(message, hint=hint, id="petstore.W002")]
