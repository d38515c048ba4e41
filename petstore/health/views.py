"""Probes, metrics and the status page."""

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from ipaddress import ip_network
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.generic import TemplateView
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from petstore.api.client_ip import client_address
from petstore.health import checks
from petstore.observability.metrics import deferred_updates
from petstore.observability.metrics_port import MultiprocessRegistry
from petstore.server.shutdown import is_draining


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Liveness: depends on nothing but the process."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Readiness: 200, or 503 with the failing part, or with `draining` during shutdown."""
    if is_draining():
        return JsonResponse({"status": "draining"}, status=503)
    parts = checks.readiness()
    return JsonResponse(parts, status=200 if parts["status"] == checks.OK else 503)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus metrics for METRICS_ALLOW_FROM; 404 for other clients, and if METRICS_PORT is set."""
    address = client_address(request)
    allowed = any(address in ip_network(network) for network in settings.METRICS_ALLOW_FROM)
    if settings.METRICS_PORT or not allowed:
        raise Http404
    deferred_updates.flush()
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    registry = MultiprocessRegistry(folder) if folder else REGISTRY
    return HttpResponse(generate_latest(registry), CONTENT_TYPE_LATEST)


class Status(TemplateView):
    """The status page for people."""

    http_method_names = ["get", "head"]
    template_name = "status.html"
    readiness: Callable[[], Mapping[str, str]] = staticmethod(checks.readiness)
    slow: Callable[[], list[str]] = staticmethod(checks.slow)
    clock: Callable[[], datetime] = staticmethod(timezone.now)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        parts = dict(self.readiness())
        ready = parts.pop("status") == checks.OK
        counts_in_the_database = bool(settings.REDIS_URL) and parts.get("quota") == "database"
        return super().get_context_data(
            **kwargs,
            ready=ready,
            now=self.clock(),
            unavailable=[
                name for name, state in parts.items() if name in checks.checks and state != checks.OK
            ],
            slow=self.slow() + (["counting requests"] if counts_in_the_database else []),
        )
