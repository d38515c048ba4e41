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

from petstore.api.client_ip import get_client_address
from petstore.health import checks
from petstore.observability.metrics import deferred_updates
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
    deferred_updates.flush()
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    registry = MultiprocessRegistry(folder) if folder else REGISTRY
    return HttpResponse(generate_latest(registry), CONTENT_TYPE_LATEST)


class StatusView(TemplateView):
    """The status page for people."""

    http_method_names = ["get", "head"]
    template_name = "status.html"
    check_readiness: Callable[[], Mapping[str, str]] = staticmethod(checks.check_readiness)
    find_slow_checks: Callable[[], list[str]] = staticmethod(checks.find_slow_checks)
    clock: Callable[[], datetime] = staticmethod(timezone.now)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        readiness = self.check_readiness()
        slow = self.find_slow_checks()
        if settings.REDIS_URL and readiness.get("quota") == "database":
            slow.append("counting requests")
        return super().get_context_data(
            **kwargs,
            ready=readiness["status"] == checks.OK,
            now=self.clock(),
            unavailable=[name for name in checks.checks if readiness.get(name, checks.OK) != checks.OK],
            slow=slow,
        )
