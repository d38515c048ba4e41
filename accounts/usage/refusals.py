"""Refusals that staff can look up: gathered in the process, written behind, bounded everywhere.

However many requests are refused, a process keeps a few numbers for each key and a list of fixed length,
and writes at most that many rows every few seconds. The others are counted, not kept.
"""

import functools
import re
from datetime import timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from accounts.caller import Caller
from accounts.limits import Verdict, moment
from accounts.models import ApiKey, Refusal

KEPT_FOR_A_WRITE = 1_000
# Of one key, by one process: a client that floods for days must not push out what others are asked about.
KEPT_OF_A_KEY_AND_HOUR = 250
PRUNED_AT_ONCE = 10_000
NO_SUCH_PATH = "(no such path)"
METHODS = frozenset("GET POST PUT PATCH DELETE HEAD OPTIONS TRACE CONNECT".split())


class Refused(NamedTuple):
    """A request that was refused, as it is noted while its client waits."""

    request_id: str
    caller: Caller
    verdict: Verdict
    method: str
    route: str


def store(refusals: list[Refused]) -> None:
    """Write these refusals; those of a key that was deleted meanwhile have no place."""
    if not refusals:
        return
    key_ids = {refused.caller.key_id for refused in refusals}
    with transaction.atomic():
        there = set(ApiKey.objects.filter(pk__in=key_ids).values_list("pk", flat=True))
        Refusal.objects.bulk_create(
            (row(refused) for refused in refusals if refused.caller.key_id in there),
            batch_size=KEPT_FOR_A_WRITE,
        )


def row(refused: Refused) -> Refusal:
    verdict = refused.verdict
    minute, day = verdict.windows
    return Refusal(
        request_id=refused.request_id,
        at=moment(verdict.now),
        account_id=refused.caller.account_id,
        key_id=refused.caller.key_id,
        rule=verdict.refusal.value,
        method=refused.method if refused.method in METHODS else "(other)",
        route=template(refused.route),
        minute_limit=minute.limit,
        minute_used=minute.used,
        minute_ends_at=moment(minute.ends_at),
        day_limit=day.limit,
        day_used=day.used,
        day_ends_at=moment(day.ends_at),
        ban_ends_at=moment(verdict.banned_until) if verdict.banned else None,
    )


@functools.cache  # As many as there are routes.
def template(route: str) -> str:
    """Return Django's route as the OpenAPI document writes it: `/v1/pets/{petId}`."""
    if route.startswith("^"):  # The pattern that catches what nothing else serves.
        return NO_SUCH_PATH
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route)


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
