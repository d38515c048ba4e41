"""Probes, metrics and the status page."""

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

from django.conf import settings
from django.db import Error
from django.db.models import Count, F, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.generic import TemplateView
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from petstore.api.client_ip import get_client_address
from petstore.health import checks
from petstore.health.models import Incident, State, StatusSample
from petstore.health.sampling import measure
from petstore.observability.metrics import deferred_updates
from petstore.observability.metrics_port import MultiprocessRegistry
from petstore.server.shutdown import is_draining

PARTS = {"api": "API", "database": "Database"}  # By field of StatusSample.


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
    deferred_updates.flush()
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    registry = MultiprocessRegistry(folder) if folder else REGISTRY
    return HttpResponse(generate_latest(registry), CONTENT_TYPE_LATEST)


class StatusView(TemplateView):
    """The status page: the current state, the last 24 hours, and incidents."""

    http_method_names = ["get", "head"]
    template_name = "status.html"
    measure: Callable[[], dict[str, State]] = staticmethod(measure)
    clock: Callable[[], datetime] = staticmethod(timezone.now)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        now, states = self.clock(), self.measure()
        history, incidents = {}, None
        with suppress(Error):  # Without the database, the page shows only the current state.
            history, incidents = read_history(now), list(find_incidents(now))
        parts = []
        for index, (part, name) in enumerate(PARTS.items()):
            hours = [minutes[index] for minutes in history.values()]
            total = sum(hours, Counter())
            measured = total.total() - total["no_data"]
            percent_up = f"{total['up'] * 10_000 // measured / 100:g}%" if measured else ""
            parts.append((name, State(states[part]), hours, total, percent_up))
        context = {"now": now, "parts": parts, "history": history, "incidents": incidents}
        return super().get_context_data(**kwargs, **context, ready=states["api"] == State.UP)


def read_history(now: datetime) -> dict[datetime, list[Counter[str]]]:
    """Count the minutes by state for each hour and part. Minutes without a sample count as `no_data`."""
    minute = int(now.timestamp()) // 60  # It may not be sampled yet.
    hours = range(minute // 60 - 24, (minute - 1) // 60 + 1)
    history = {hour: [Counter(no_data=min(60, minute - hour * 60)) for _ in PARTS] for hour in hours}
    samples = StatusSample.objects.filter(minute__range=(hours.start * 60, minute - 1))
    by_hour = samples.annotate(hour=F("minute") / 60).values_list("hour", *PARTS)
    for hour, *states, count in by_hour.annotate(Count("pk")):
        for minutes, state in zip(history[hour], states, strict=True):
            minutes.update({state: count, "no_data": -count})
    return {datetime.fromtimestamp(hour * 3600, UTC): minutes for hour, minutes in history.items()}


def find_incidents(now: datetime) -> QuerySet[Incident]:
    """Select incidents that have started and did not end over 30 days ago, current ones first."""
    recent = Q(ends_at=None) | Q(ends_at__gte=now - timedelta(days=30))
    newest_first = F("ends_at").desc(nulls_first=True), "-starts_at"
    return Incident.objects.filter(recent, starts_at__lte=now).order_by(*newest_first)
