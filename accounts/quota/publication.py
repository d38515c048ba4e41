"""Publishes changes of keys, accounts and plans, so that they hold from the next request on (D19, D27).

The database store reads every key itself, so only the key records cached in Redis need publishing. The
transaction of a change also raises the version in the key's Publication row. The change is published right
after the commit, before the caller continues. Workers retry every few seconds what failed; publishing is
idempotent.
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

from accounts.keys.identity import KeyRecord
from accounts.models import Account, ApiKey, KeyStanding, Plan, Publication
from accounts.quota import key_record, store
from accounts.quota.redis_store import RECORD_TTL_MS, RedisQuotaStore
from accounts.usage import write_behind
from petstore.event_loop.redis_scripts import RedisUnavailableError
from petstore.observability.metrics import STORE_UP

logger = logging.getLogger(__name__)

PUBLISH_BATCH_SIZE = 500  # Keys in one round trip.
PUBLISH_TIMEOUT = 10.0  # Seconds that a change of many keys waits; workers publish the rest.

NOT_PUBLISHED = (
    "The change is saved, but not fully published to Redis. Workers may use the old state for up to "
    f"{RECORD_TTL_MS // 1000} seconds. Publishing is retried every "
    f"{write_behind.WRITE_INTERVAL_SECONDS} seconds."
)

# Ordered by key, so that two changes cannot deadlock.
RAISE_VERSION = """
INSERT INTO accounts_publication AS p (key_id, version, told)
SELECT id, 1, 0 FROM accounts_apikey WHERE {} ORDER BY id
ON CONFLICT (key_id) DO UPDATE SET version = p.version + 1
"""
# A change of an account or plan does not matter to revoked keys.
WHERE = {
    "pk": "id = %s",
    "account": "account_id = %s AND revoked_at IS NULL",
    "account__plan": (
        "account_id IN (SELECT id FROM accounts_account WHERE plan_id = %s) AND revoked_at IS NULL"
    ),
}
# Two statements: the account may change its plan while the first waits. UPDATE conflicts with both.
HOLD_LIMITS = (
    "SELECT 1 FROM accounts_account WHERE id = %s FOR SHARE",
    "SELECT 1 FROM accounts_plan"
    " WHERE code = (SELECT plan_id FROM accounts_account WHERE id = %s) FOR SHARE",
)
MARK_PUBLISHED = "UPDATE accounts_publication SET told = %s WHERE key_id = %s AND told < %s"
OVERTAKE = """
INSERT INTO accounts_publication AS p (key_id, version, told) VALUES (%s, %s, 0)
ON CONFLICT (key_id) DO UPDATE SET version = excluded.version WHERE p.version < excluded.version
"""


def publish(lookup: str, value: Any, *, now: bool = True) -> None:
    """Raise the versions of these keys; publish them after the commit.

    Without `now`, the retry of the workers publishes them instead of the caller.
    """
    with connection.cursor() as cursor:
        cursor.execute(RAISE_VERSION.format(WHERE[lookup]), [value])
    if store.redis is not None and now:
        transaction.on_commit(partial(publish_now, store.redis, **{lookup: value}))


def hold_limits(account_id: int) -> None:
    """Lock an account's plan and limits until the transaction ends.

    A concurrent change of the limits does not see a key that is added in this transaction, so it would not
    raise its version. The lock serializes the two. Lock order: key, account, plan, publications. SQLite has
    a single writer anyway.
    """
    if connection.features.has_select_for_update:
        with connection.cursor() as cursor:
            for statement in HOLD_LIMITS:
                cursor.execute(statement, [account_id])


def find_unpublished(**keys: Any) -> QuerySet[Publication]:
    """Select the pending publications of these keys, or of all."""
    return Publication.objects.filter(
        told__lt=F("version"), **{f"key__{name}": value for name, value in keys.items()}
    )


def get_warning(**keys: Any) -> str:
    """Return a message for the author of a change that is not fully published, else ''."""
    return NOT_PUBLISHED if store.redis is not None and find_unpublished(**keys).exists() else ""


def publish_now(redis: RedisQuotaStore, **keys: Any) -> None:
    """Publish a change of these keys; log a failure."""
    try:
        publish_pending(redis, **keys)
    except (RedisUnavailableError, Error) as error:
        logger.error("%s (%s)", NOT_PUBLISHED, error)


def publish_unpublished() -> None:
    """Publish what a process left unpublished because it ended or could not reach Redis."""
    if store.redis is not None:
        with suppress(RedisUnavailableError):  # Requests log the failure.
            publish_pending(store.redis)


def publish_pending(redis: RedisQuotaStore, **keys: Any) -> None:
    """Publish pending changes of these keys, or of all.

    Raises RedisUnavailableError at the end if Redis, or a node of it, failed.
    """
    until, last = monotonic() + PUBLISH_TIMEOUT, 0
    failed: dict[str, RedisUnavailableError] = {}  # By node.
    while monotonic() < until:
        ids = list(
            find_unpublished(pk__gt=last, **keys)
            .order_by("pk")
            .values_list("pk", flat=True)[:PUBLISH_BATCH_SIZE]
        )
        if not ids:
            break
        last = ids[-1]
        publish_batch(redis, ids, failed)
        if "" in failed:  # No cluster.
            break
    for error in failed.values():
        raise error


def publish_batch(
    redis: RedisQuotaStore, key_ids: list[int], failed: dict[str, RedisUnavailableError]
) -> None:
    """Publish these keys, except on nodes in `failed`, to which failing nodes are added."""
    records = read(key_ids)
    deleted = set(key_ids) - {record.id for record in records}
    Publication.objects.filter(pk__in=deleted).delete()
    by_node: dict[str, list[KeyRecord]] = {}
    for record in records:
        by_node.setdefault(redis.get_shard(record.public_id), []).append(record)
    for node, batch in by_node.items():
        if node not in failed:
            try:
                record_published(batch, redis.publish_all(batch))
            except RedisUnavailableError as error:
                failed[node] = error


def record_published(records: list[KeyRecord], replies: list[tuple[bool, int]]) -> None:
    """Record the published versions; handle records that Redis rejected as outdated."""
    pairs = list(zip(records, replies, strict=True))
    published = [(record.version, record.id, record.version) for record, (stored, _) in pairs if stored]
    if published:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(MARK_PUBLISHED, published)
    if len(published) < len(pairs):
        overtake({record.id: version for record, (stored, version) in pairs if not stored})


def overtake(rejected: dict[int, int]) -> None:
    """Raise versions above those in Redis, if the database has lost them.

    Usually a later change has raised the version, and nothing is left to publish. If the database is
    still behind, a standby without the latest changes became the primary.
    """
    lost = [record for record in read(list(rejected)) if record.version < rejected[record.id]]
    if lost:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(OVERTAKE, [(record.id, rejected[record.id] + 1) for record in lost])


def read(key_ids: list[int]) -> list[KeyRecord]:
    return [key_record.from_row(row) for row in key_record.QUERY.filter(pk__in=key_ids).order_by("pk")]


@receiver(post_save, sender=ApiKey)
def key_saved(instance: ApiKey, created: bool, **kwargs: Any) -> None:
    if created:
        hold_limits(instance.account_id)
    publish("pk", instance.pk)


@receiver(post_save, sender=Account)
def account_saved(instance: Account, created: bool, **kwargs: Any) -> None:
    if not created:
        hold_limits(instance.pk)
        publish("account", instance.pk)


@receiver(post_save, sender=Plan)
def plan_saved(instance: Plan, **kwargs: Any) -> None:
    publish("account__plan", instance.pk)


@receiver(post_save, sender=KeyStanding)
def rate_limit_state_saved(instance: KeyStanding, **kwargs: Any) -> None:
    # A request that triggers a ban must not wait for an unavailable Redis.
    publish("pk", instance.key_id, now=not store.is_redis_unavailable())


@receiver(post_delete, sender=ApiKey)
def key_deleted(instance: ApiKey, **kwargs: Any) -> None:
    # Only for keys deleted by hand: the application revokes them.
    if store.redis is not None:
        transaction.on_commit(partial(store.redis.forget, instance.public_id), robust=True)


def start() -> None:
    """Start the write-behind thread, which also publishes pending changes."""
    STORE_UP.labels("redis" if store.redis else "database").set(1)
    write_behind.recorder.start(publish_unpublished)
