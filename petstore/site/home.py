"""The home page."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone
from django.views.generic import TemplateView


class Home(TemplateView):
    """The home page: what the service is, and a first call.

    Plans and readiness belong to other layers: `as_view` takes functions that return them.
    """

    http_method_names = ["get", "head"]
    template_name = "home.html"
    plans: Callable[[], Iterable[Any]] = list  # With limits; None if they differ by account.
    readiness: Callable[[], Mapping[str, str]] = dict  # `status` is "ok" if the service is ready.
    clock: Callable[[], datetime] = staticmethod(timezone.now)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        ready, plans = self.readiness().get("status") == "ok", []
        with suppress(DatabaseError):
            plans = list(self.plans()) if ready else []
        return super().get_context_data(
            **kwargs,
            base_url=settings.BASE_URL,
            staging_base_url=settings.STAGING_BASE_URL,
            environment=settings.ENVIRONMENT,
            demo_key=settings.DEMO_KEY,
            ready=ready,
            plans=plans,
            get_pet_removed_at=settings.GET_PET_REMOVED_AT,
            get_pet_is_removed=self.clock() >= settings.GET_PET_REMOVED_AT,
        )
