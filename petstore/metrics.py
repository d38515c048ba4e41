"""What the service counts of itself, over all workers of this machine, in Prometheus form.

`manage.py serve` gives its workers a folder (PROMETHEUS_MULTIPROC_DIR) in which each keeps its numbers; any
of them answers for all. Without it, as in tests and commands, a process speaks for itself alone.
"""

import os
from ipaddress import ip_network
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from petstore.addresses import client_address

DECISIONS = Counter(
    "petstore_quota_decisions_total",
    "Requests by what the quota decided: admitted, or the code of the refusal.",
    ["outcome"],
)
BANS = Counter("petstore_bans_total", "Keys that were banned.")
REFUSALS_NOT_KEPT = Counter(
    "petstore_refusals_not_kept_total",
    "Refused requests that staff can't look up, because too many of their key or of all came at once.",
)
# With a label, so that the parent of the workers, which never sets it, has no say.
STORE_UP = Gauge(
    "petstore_quota_store_up",
    "1 while every worker counts in this store; redis is 0 while one counts in the database instead.",
    ["store"],
    multiprocess_mode="livemin",
)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Show all numbers, to the networks of METRICS_ALLOW_FROM; for others there is no such page."""
    address = client_address(request)
    if not any(address in ip_network(network) for network in settings.METRICS_ALLOW_FROM):
        raise Http404
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    return HttpResponse(generate_latest(all_workers(folder) if folder else REGISTRY), CONTENT_TYPE_LATEST)


def all_workers(folder: str) -> CollectorRegistry:
    """Return the numbers of every worker; the state of those that died counts no more."""
    for file in Path(folder).glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        if not Path(f"/proc/{pid}").exists():
            mark_process_dead(pid)  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry
