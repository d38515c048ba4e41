"""What programs beside the clients ask: whether the process lives, whether it can serve, its numbers."""

import os
from ipaddress import ip_network

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from petstore.api.client_ip import client_address
from petstore.observability.draining import is_draining
from petstore.observability.health import OK, readiness
from petstore.observability.metrics import behind
from petstore.observability.metrics_port import AllWorkers


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Say that the process lives; touches nothing else."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Say whether requests can be served: 200, or 503 with the part that is missing.

    `draining` is a service that was told to end: it still answers, but send it no more requests.
    """
    if is_draining():
        return JsonResponse({"status": "draining"}, status=503)
    parts = readiness()
    return JsonResponse(parts, status=200 if parts["status"] == OK else 503)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Show all numbers, to the networks of METRICS_ALLOW_FROM; for others there is no such page.

    Nor is there one for anybody where METRICS_PORT has them on a port of their own.
    """
    address = client_address(request)
    allowed = any(address in ip_network(network) for network in settings.METRICS_ALLOW_FROM)
    if settings.METRICS_PORT or not allowed:
        raise Http404
    behind.catch_up()
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    return HttpResponse(generate_latest(AllWorkers(folder) if folder else REGISTRY), CONTENT_TYPE_LATEST)
