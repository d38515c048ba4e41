"""Refusals that staff can look up: gathered in the process, written behind, bounded everywhere.

However many requests are refused, a process keeps a few numbers for each key and a list of fixed length,
and writes at most that many rows every few seconds. The others are counted, not kept.
"""

from datetime import timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from accounts.models import ApiKey, Refusal
from accounts.quota.limits import RateLimitDecision, moment
from petstore.api.client_ip import Address, network_of
from petstore.observability.instrumentation import METHODS, UNKNOWN, route_of

KEPT_FOR_A_WRITE = 1_000
# Of one key, by one process: a client that floods for days must not push out what others are asked about.
KEPT_OF_A_KEY_AND_HOUR = 250
# Of 401 and 403, which cost nobody's quota: what one key, one address and all of them may take in an hour,
# and which part of a write. So whoever floods with a revoked key hides neither others nor any 429.
OTHERS_OF_A_KEY, OTHERS_OF_AN_ADDRESS, OTHERS_OF_ALL = 50, 20, 250
OTHERS_FOR_A_WRITE = KEPT_FOR_A_WRITE // 2
PRUNED_AT_ONCE = 10_000
NO_SUCH_PATH = "(no such path)"


class Refused(NamedTuple):
    """A request that was refused, as it is noted while its client waits."""

    request_id: str
    public_id: str  # Of the key, of which the client had the secret.
    rule: str
    at: int
    method: str
    route: str
    address: Address
    decision: RateLimitDecision | None = None  # Where it is the quota's.
    scope: str = ""

    @property
    def shares(self) -> list[tuple[str, int]]:
        """Out of which shares of an hour it is kept, and how many each has."""
        if self.decision is not None:
            return [(self.public_id, KEPT_OF_A_KEY_AND_HOUR)]
        return [
            (f"others of {self.public_id}", OTHERS_OF_A_KEY),
            (f"others of {network_of(self.address)}", OTHERS_OF_AN_ADDRESS),
            ("others", OTHERS_OF_ALL),
        ]


def store(refusals: list[Refused]) -> None:
    """Write these refusals; those of a key that was deleted meanwhile have no place."""
    if not refusals:
        return
    ids = {refused.public_id for refused in refusals}
    with transaction.atomic():
        keys = {key.public_id: key for key in ApiKey.objects.filter(public_id__in=ids)}
        Refusal.objects.bulk_create(
            (row(refused, keys[refused.public_id]) for refused in refusals if refused.public_id in keys),
            batch_size=KEPT_FOR_A_WRITE,
        )


def row(refused: Refused, key: ApiKey) -> Refusal:
    route = route_of(refused.route)
    known = Refusal(
        request_id=refused.request_id,
        at=moment(refused.at),
        account_id=key.account_id,
        key=key,
        rule=refused.rule,
        method=refused.method if refused.method in METHODS else "(other)",
        route=NO_SUCH_PATH if route == UNKNOWN else route,
        address=str(refused.address),
        scope=refused.scope,
    )
    if refused.decision is not None:
        minute, day = refused.decision.windows
        known.minute_limit, known.minute_used = minute.limit, minute.used
        known.day_limit, known.day_used = day.limit, day.used
        known.minute_ends_at, known.day_ends_at = moment(minute.ends_at), moment(day.ends_at)
        known.ban_ends_at = moment(refused.decision.banned_until) if refused.decision.banned else None
    return known


def prune(now: int) -> None:
    """Delete what is older than REFUSALS_KEPT_DAYS, and the oldest beyond REFUSALS_KEPT_MOST.

    Both ends are found in an index, and no more than 10,000 rows go at once. Ids only grow, so as many ids
    hold at most as many rows. `now` is in microseconds since the epoch.
    """
    too_old = moment(now) - timedelta(days=settings.REFUSALS_KEPT_DAYS)
    expired = Refusal.objects.filter(at__lt=too_old).order_by("at").values_list("pk", flat=True)
    newest = Refusal.objects.aggregate(newest=Max("pk"))["newest"] or 0
    surplus = Refusal.objects.filter(pk__lte=newest - settings.REFUSALS_KEPT_MOST).order_by("pk")
    for ids in (expired, surplus.values_list("pk", flat=True)):
        if found := list(ids[:PRUNED_AT_ONCE]):
            Refusal.objects.filter(pk__in=found).delete()
