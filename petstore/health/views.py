"""Probes, metrics and the status page."""

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from ipaddress import ip_network
from typing import Any

from django.conf import settings
from django.db import Error
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.generic import TemplateView
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from petstore.api.client_ip import get_client_address
from petstore.health import checks
from petstore.health.history import read_days, read_hours
from petstore.health.models import DAYS, PARTS, Incident, Stage, State
from petstore.health.sampling import measure
from petstore.observability.metrics_port import MultiprocessRegistry
from petstore.server.shutdown import is_draining


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Report liveness, without checking any dependency."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Report readiness: 200, or 503 with the failing check, or with `draining` during shutdown."""
    if is_draining():
        return JsonResponse({"status": "draining"}, status=503)
    readiness = checks.check_readiness()
    return JsonResponse(readiness, status=200 if readiness["status"] == checks.OK else 503)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Export metrics to METRICS_ALLOW_FROM; others get a 404, as do all if METRICS_PORT is set."""
    address = get_client_address(request)
    allowed = any(address in ip_network(network) for network in settings.METRICS_ALLOW_FROM)
    if settings.METRICS_PORT or not allowed:
        raise Http404
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    registry = MultiprocessRegistry(folder) if folder else REGISTRY
    return HttpResponse(generate_latest(registry), CONTENT_TYPE_LATEST)


class StatusView(TemplateView):
    """The status page: the current state, the last 90 days and 24 hours, and incidents."""

    http_method_names = ["get", "head"]
    template_name = "status.html"
    measure: Callable[[], dict[str, State]] = staticmethod(measure)
    clock: Callable[[], datetime] = staticmethod(timezone.now)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        now, states = self.clock(), self.measure()
        context: dict[str, Any] = {}
        with suppress(Error):  # Without the database, the page shows only the current state.
            incidents = Incident.objects.recent(now)
            context["open"] = [one for one in incidents if one.stage != Stage.RESOLVED]
            context["past"] = [one for one in incidents if one.stage == Stage.RESOLVED]
            context["histories"] = {"day": read_days(now), "hour": read_hours(now)}
        parts = [(name, State(states[part])) for part, name in PARTS.items()]
        return super().get_context_data(
            **kwargs, now=now, ready=states["api"] == State.UP, parts=parts, days=DAYS, **context
        )
