"""The rejection log: recent rejections for staff to look up, written behind.

Bounded against floods: a process logs a limited number of rejections per write, key, address and hour, and
only counts the others.
"""

from datetime import timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from accounts.models import ApiKey, Refusal
from accounts.quota.limits import RateLimitDecision, to_datetime
from petstore.api.client_ip import Address, network_of
from petstore.observability.instrumentation import METHODS, UNKNOWN_ROUTE, format_route

MAX_PER_WRITE = 1_000
# Per process, so that a flood of one client does not displace the rejections of others.
MAX_PER_KEY_AND_HOUR = 250
# Separate, lower limits of 401 and 403, which no quota limits: per hour for a key, an address, and all
# together. A flood with a revoked key must hide neither other clients nor any 429.
OTHERS_PER_KEY, OTHERS_PER_ADDRESS, OTHERS_PER_HOUR = 50, 20, 250
OTHERS_PER_WRITE = MAX_PER_WRITE // 2
PRUNE_BATCH_SIZE = 10_000
NO_SUCH_PATH = "(no such path)"


class RejectedRequest(NamedTuple):
    request_id: str
    public_id: str  # Of the key.
    rule: str
    at: int
    method: str
    route: str
    address: Address
    decision: RateLimitDecision | None = None  # If the quota rejected it.
    scope: str = ""

    @property
    def hourly_limits(self) -> list[tuple[str, int]]:
        """The hourly limits that it counts towards, with their sizes."""
        if self.decision is not None:
            return [(self.public_id, MAX_PER_KEY_AND_HOUR)]
        return [
            (f"others of {self.public_id}", OTHERS_PER_KEY),
            (f"others of {network_of(self.address)}", OTHERS_PER_ADDRESS),
            ("others", OTHERS_PER_HOUR),
        ]


def store(rejected: list[RejectedRequest]) -> None:
    """Write these rejections, except those of keys deleted since."""
    if not rejected:
        return
    ids = {one.public_id for one in rejected}
    with transaction.atomic():
        keys = {key.public_id: key for key in ApiKey.objects.filter(public_id__in=ids)}
        Refusal.objects.bulk_create(
            (row(one, keys[one.public_id]) for one in rejected if one.public_id in keys),
            batch_size=MAX_PER_WRITE,
        )


def row(rejected: RejectedRequest, key: ApiKey) -> Refusal:
    route = format_route(rejected.route)
    refusal = Refusal(
        request_id=rejected.request_id,
        at=to_datetime(rejected.at),
        account_id=key.account_id,
        key=key,
        rule=rejected.rule,
        method=rejected.method if rejected.method in METHODS else "(other)",
        route=NO_SUCH_PATH if route == UNKNOWN_ROUTE else route,
        address=str(rejected.address),
        scope=rejected.scope,
    )
    if rejected.decision is not None:
        minute, day = rejected.decision.windows
        refusal.minute_limit, refusal.minute_used = minute.limit, minute.used
        refusal.day_limit, refusal.day_used = day.limit, day.used
        refusal.minute_ends_at, refusal.day_ends_at = to_datetime(minute.ends_at), to_datetime(day.ends_at)
        refusal.ban_ends_at = (
            to_datetime(rejected.decision.banned_until) if rejected.decision.banned else None
        )
    return refusal


def prune(now: int) -> None:
    """Delete rows older than REFUSALS_KEPT_DAYS, and the oldest beyond REFUSALS_KEPT_MOST.

    At most PRUNE_BATCH_SIZE each, found by index: the number of ids bounds the number of rows. `now` is in
    microseconds since the epoch.
    """
    too_old = to_datetime(now) - timedelta(days=settings.REFUSALS_KEPT_DAYS)
    expired = Refusal.objects.filter(at__lt=too_old).order_by("at").values_list("pk", flat=True)
    newest = Refusal.objects.aggregate(newest=Max("pk"))["newest"] or 0
    surplus = Refusal.objects.filter(pk__lte=newest - settings.REFUSALS_KEPT_MOST).order_by("pk")
    for ids in (expired, surplus.values_list("pk", flat=True)):
        if found := list(ids[:PRUNE_BATCH_SIZE]):
            Refusal.objects.filter(pk__in=found).delete()
