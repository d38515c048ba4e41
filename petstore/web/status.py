"""The service's state for people; /readyz has it for machines."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.views.generic import TemplateView

from petstore.observability import health


class Status(TemplateView):
    """Whether requests are served, what does not answer, and what is slow."""

    http_method_names = ["get", "head"]
    template_name = "status.html"
    readiness: Callable[[], Mapping[str, str]] = staticmethod(health.readiness)
    slow: Callable[[], list[str]] = staticmethod(health.slow)
    clock: Callable[[], datetime] = staticmethod(timezone.now)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return what the page shows."""
        parts = dict(self.readiness())
        ready = parts.pop("status") == health.OK
        counts_in_the_database = bool(settings.REDIS_URL) and parts.get("quota") == "database"
        return super().get_context_data(
            **kwargs,
            ready=ready,
            now=self.clock(),
            away=[name for name, state in parts.items() if name in health.checks and state != health.OK],
            slow=self.slow() + (["counting requests"] if counts_in_the_database else []),
        )
