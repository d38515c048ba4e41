"""Makes changes hold on the next request, on every worker of every machine (D19, D27).

The database store reads each key anew, so only Redis has to be told. That it has to be told is put on
record in the transaction of the change itself: see Publication. It is told at once after the commit,
before the change's own call returns. What fails then, or is cut off by the end of the process, those who
serve make up for every few seconds: telling twice does no harm.
"""

import logging
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

from django.db import Error, connection, transaction
from django.db.models import F, QuerySet
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from accounts.keys.identity import KeyFacts
from accounts.models import Account, ApiKey, KeyStanding, Plan, Publication
from accounts.quota import key_record, store
from accounts.quota.redis_store import FACTS_KEPT, RedisQuotaStore
from accounts.usage import write_behind
from petstore.event_loop.redis_scripts import RedisUnavailableError
from petstore.observability.metrics import STORE_UP

logger = logging.getLogger(__name__)

TOLD_AT_ONCE = 500  # Keys in one round trip.
TELLING_SECONDS = 10.0  # What a change with many keys waits for; the rest is told by those who serve.

NOT_TOLD = (
    "The change is saved, but Redis could not be told of all of it. Until it is, workers that reach Redis "
    f"may go on with the old state, for up to {FACTS_KEPT // 1000} seconds. It is tried again every "
    f"{write_behind.WRITE_EVERY} seconds."
)

# In the order of the keys, so that two changes never wait for each other.
RAISE_VERSION = """
INSERT INTO accounts_publication AS p (key_id, version, told)
SELECT id, 1, 0 FROM accounts_apikey WHERE {} ORDER BY id
ON CONFLICT (key_id) DO UPDATE SET version = p.version + 1
"""
# Revoked keys stay revoked whatever their account may do.
WHERE = {
    "pk": "id = %s",
    "account": "account_id = %s AND revoked_at IS NULL",
    "account__plan": (
        "account_id IN (SELECT id FROM accounts_account WHERE plan_id = %s) AND revoked_at IS NULL"
    ),
}
# One after the other: the account may have moved while the first waited. UPDATE conflicts with both.
HOLD_LIMITS = (
    "SELECT 1 FROM accounts_account WHERE id = %s FOR SHARE",
    "SELECT 1 FROM accounts_plan"
    " WHERE code = (SELECT plan_id FROM accounts_account WHERE id = %s) FOR SHARE",
)
NOTE_TOLD = "UPDATE accounts_publication SET told = %s WHERE key_id = %s AND told < %s"
OVERTAKE = """
INSERT INTO accounts_publication AS p (key_id, version, told) VALUES (%s, %s, 0)
ON CONFLICT (key_id) DO UPDATE SET version = excluded.version WHERE p.version < excluded.version
"""


def publish(lookup: str, value: Any, *, now: bool = True) -> None:
    """Put on record that Redis has to be told of these keys; tell it after the commit.

    `now`: by the caller, who waits for it; else by the thread that makes up for what was not told.
    """
    with connection.cursor() as cursor:
        cursor.execute(RAISE_VERSION.format(WHERE[lookup]), [value])
    if store.redis is not None and now:
        transaction.on_commit(partial(tell_now, store.redis, **{lookup: value}))


def hold_limits(account_id: int) -> None:
    """Keep an account's plan and numbers as they are until the transaction ends.

    For keys that come to an account or a plan: whoever gives that other numbers does not see them before
    they are committed, and raises no versions of theirs. So the one waits for the other, then sees what it
    did. Locks are taken in the order key, account, plan, publications. SQLite has one writer anyway.
    """
    if connection.features.has_select_for_update:
        with connection.cursor() as cursor:
            for statement in HOLD_LIMITS:
                cursor.execute(statement, [account_id])


def untold(**keys: Any) -> QuerySet[Publication]:
    """Return what Redis was not yet told of these keys, or of any."""
    return Publication.objects.filter(
        told__lt=F("version"), **{f"key__{name}": value for name, value in keys.items()}
    )


def warning(**keys: Any) -> str:
    """Return what somebody should know who has just changed these keys; '' where all is well."""
    return NOT_TOLD if store.redis is not None and untold(**keys).exists() else ""


def tell_now(redis: RedisQuotaStore, **keys: Any) -> None:
    """Tell of a change of these keys; log what fails."""
    try:
        tell(redis, **keys)
    except (RedisUnavailableError, Error) as error:
        logger.error("%s (%s)", NOT_TOLD, error)


def tell_all() -> None:
    """Tell what a process that has ended, or could not reach Redis, has left on record."""
    if store.redis is not None:
        with suppress(RedisUnavailableError):  # Requests meet its failure as well, and log it.
            tell(store.redis)


def tell(redis: RedisQuotaStore, **keys: Any) -> None:
    """Tell Redis of these keys, or of any, as far as it has to be told.

    Raises RedisUnavailableError at the end if it, or a node of it, could not be told.
    """
    until, last = monotonic() + TELLING_SECONDS, 0
    failed: dict[str, RedisUnavailableError] = {}  # By node.
    while monotonic() < until:
        ids = list(untold(pk__gt=last, **keys).order_by("pk").values_list("pk", flat=True)[:TOLD_AT_ONCE])
        if not ids:
            break
        last = ids[-1]
        tell_some(redis, ids, failed)
        if "" in failed:  # There is but one server.
            break
    for error in failed.values():
        raise error


def tell_some(redis: RedisQuotaStore, key_ids: list[int], failed: dict[str, RedisUnavailableError]) -> None:
    """Tell Redis of these keys, and note it, but for nodes that have failed; note those that fail now."""
    known = read(key_ids)
    gone = set(key_ids) - {one.id for one in known}
    Publication.objects.filter(pk__in=gone).delete()
    by_node: dict[str, list[KeyFacts]] = {}
    for one in known:
        by_node.setdefault(redis.shard(one.public_id), []).append(one)
    for node, some in by_node.items():
        if node not in failed:
            try:
                note(some, redis.publish_all(some))
            except RedisUnavailableError as error:
                failed[node] = error


def note(published: list[KeyFacts], answers: list[tuple[bool, int]]) -> None:
    """Note what Redis was told, and see to what it did not take."""
    pairs = list(zip(published, answers, strict=True))
    told = [(one.version, one.id, one.version) for one, (stored, _) in pairs if stored]
    if told:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(NOTE_TOLD, told)
    if len(told) < len(pairs):
        overtake({one.id: version for one, (stored, version) in pairs if not stored})


def overtake(refused: dict[int, int]) -> None:
    """Deal with keys of which Redis has later versions than were just read.

    They are of changes that came meanwhile, as a rule; then the database has them by now. Where it has not,
    a standby has become the primary without them, and its versions must first pass those.
    """
    lost = [one for one in read(list(refused)) if one.version < refused[one.id]]
    if lost:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(OVERTAKE, [(one.id, refused[one.id] + 1) for one in lost])


def read(key_ids: list[int]) -> list[KeyFacts]:
    """Return the facts of these keys, in their order."""
    return [key_record.from_row(row) for row in key_record.QUERY.filter(pk__in=key_ids).order_by("pk")]


@receiver(post_save, sender=ApiKey)
def key_saved(instance: ApiKey, created: bool, **kwargs: Any) -> None:
    if created:
        hold_limits(instance.account_id)
    publish("pk", instance.pk)


@receiver(post_save, sender=Account)
def account_saved(instance: Account, created: bool, **kwargs: Any) -> None:
    """Tell of an account that moved to another plan, or to other numbers."""
    if not created:
        hold_limits(instance.pk)
        publish("account", instance.pk)


@receiver(post_save, sender=Plan)
def plan_saved(instance: Plan, **kwargs: Any) -> None:
    publish("account__plan", instance.pk)


@receiver(post_save, sender=KeyStanding)
def standing_saved(instance: KeyStanding, **kwargs: Any) -> None:
    """Tell of a ban, or that one was lifted.

    A request that sets off a ban does not wait for a Redis that is known to hang.
    """
    publish("pk", instance.key_id, now=not store.redis_is_away())


@receiver(post_delete, sender=ApiKey)
def key_deleted(instance: ApiKey, **kwargs: Any) -> None:
    """Drop a key that somebody deleted by hand: the application itself never does."""
    if store.redis is not None:
        transaction.on_commit(partial(store.redis.forget, instance.public_id), robust=True)


def begin() -> None:
    """Write usage behind from now on, and tell Redis of what it was not told of."""
    STORE_UP.labels("redis" if store.redis else "database").set(1)
    write_behind.recorder.start(tell_all)
