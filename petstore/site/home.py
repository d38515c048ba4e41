"""The home page."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpResponse
from django.utils import timezone
from django.views.generic import TemplateView

from petstore.site.docs import get_links


class HomeView(TemplateView):
    """The home page, which describes the service and shows a first call.

    Plans, readiness and incidents belong to layers above, so `as_view` takes functions that return them.
    """

    http_method_names = ["get", "head"]
    template_name = "home.html"
    get_plans: Callable[[], Iterable[Any]] = list
    check_readiness: Callable[[], Mapping[str, str]] = dict  # `status` is "ok" if the service is ready.
    count_open_incidents: Callable[[datetime], int] = staticmethod(lambda now: 0)
    clock: Callable[[], datetime] = staticmethod(timezone.now)

    def render_to_response(self, context: dict[str, Any], **response_kwargs: Any) -> HttpResponse:
        response = super().render_to_response(context, **response_kwargs)
        response["Link"] = ", ".join(get_links())
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        ready = self.check_readiness().get("status") == "ok"
        now, plans, open_incidents = self.clock(), list[Any](), 0
        if ready:
            with suppress(DatabaseError):
                plans, open_incidents = list(self.get_plans()), self.count_open_incidents(now)
        return super().get_context_data(
            **kwargs,
            base_url=settings.BASE_URL,
            staging_base_url=settings.STAGING_BASE_URL,
            demo_key=settings.DEMO_KEY,
            ready=ready,
            plans=plans,
            open_incidents=open_incidents,
            get_pet_removed_at=settings.GET_PET_REMOVED_AT,
            get_pet_is_removed=now >= settings.GET_PET_REMOVED_AT,
        )
