"""Publishes changes of keys, accounts and plans, so that they apply to the next request (D19, D27).

The database store reads the key for each request, so only the key records cached in Redis need publishing.
The transaction of a change also increments the version in the key's Publication row. The change is
published right after the commit, before the caller continues. Publishing is idempotent, and workers retry
failures every few seconds.
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

PUBLISH_BATCH_SIZE = 500  # Keys.
PUBLISH_TIMEOUT = 10.0  # Seconds; workers publish the rest of a change later.

NOT_PUBLISHED = (
    "The change was saved, but could not be fully published to Redis. Requests may use the previous state "
    f"for up to {RECORD_TTL_MS // 1000} seconds. "
    f"The service retries every {write_behind.WRITE_INTERVAL_SECONDS} seconds."
)

# Sorted by key, so that concurrent changes cannot deadlock.
INCREMENT_VERSION = """
INSERT INTO accounts_publication AS p (key_id, version, told)
SELECT id, 1, 0 FROM accounts_apikey WHERE {} ORDER BY id
ON CONFLICT (key_id) DO UPDATE SET version = p.version + 1
"""
# Changes of accounts and plans do not affect revoked keys.
CONDITIONS = {
    "pk": "id = %s",
    "account": "account_id = %s AND revoked_at IS NULL",
    "account__plan": (
        "account_id IN (SELECT id FROM accounts_account WHERE plan_id = %s) AND revoked_at IS NULL"
    ),
}
# FOR SHARE conflicts with UPDATE. There are two statements, because the account's plan may change while the
# first one waits.
LOCK_LIMITS = (
    "SELECT 1 FROM accounts_account WHERE id = %s FOR SHARE",
    "SELECT 1 FROM accounts_plan"
    " WHERE code = (SELECT plan_id FROM accounts_account WHERE id = %s) FOR SHARE",
)
MARK_PUBLISHED = "UPDATE accounts_publication SET told = %s WHERE key_id = %s AND told < %s"
RAISE_VERSION = """
INSERT INTO accounts_publication AS p (key_id, version, told) VALUES (%s, %s, 0)
ON CONFLICT (key_id) DO UPDATE SET version = excluded.version WHERE p.version < excluded.version
"""


def publish(lookup: str, value: Any, *, on_commit: bool = True) -> None:
    """Increment the versions of these keys, and publish them after the commit, or with the next retry."""
    with connection.cursor() as cursor:
        cursor.execute(INCREMENT_VERSION.format(CONDITIONS[lookup]), [value])
    if store.redis is not None and on_commit:
        transaction.on_commit(partial(publish_or_log, store.redis, **{lookup: value}))


def lock_limits(account_id: int) -> None:
    """Lock an account's plan and limits until the transaction ends.

    A concurrent change of the limits does not see a key that this transaction adds, so it would not
    increment its version. The lock serializes the two. Locks are taken in the order account, key,
    rate-limit state, plan, publications. SQLite needs no lock, since it has a single writer.
    """
    if connection.features.has_select_for_update:
        with connection.cursor() as cursor:
            for statement in LOCK_LIMITS:
                cursor.execute(statement, [account_id])


def find_unpublished(**keys: Any) -> QuerySet[Publication]:
    """Select the pending publications of these keys, or of all keys."""
    return Publication.objects.filter(
        published_version__lt=F("version"), **{f"key__{name}": value for name, value in keys.items()}
    )


def get_warning(**keys: Any) -> str:
    """Return a warning if a change of these keys is not fully published, else ''."""
    return NOT_PUBLISHED if store.redis is not None and find_unpublished(**keys).exists() else ""


def publish_or_log(redis: RedisQuotaStore, **keys: Any) -> None:
    try:
        publish_pending(redis, **keys)
    except (RedisUnavailableError, Error) as error:
        logger.error("%s (%s)", NOT_PUBLISHED, error)


def retry_publishing() -> None:
    """Publish changes that a process left pending because it stopped or could not reach Redis."""
    if store.redis is not None:
        with suppress(RedisUnavailableError):  # Requests log the failure.
            publish_pending(store.redis)


def publish_pending(redis: RedisQuotaStore, **keys: Any) -> None:
    """Publish pending changes of these keys, or of all. Raises RedisUnavailableError if a node failed."""
    deadline = monotonic() + PUBLISH_TIMEOUT
    last_id = 0
    failed: dict[str, RedisUnavailableError] = {}  # By node.
    while monotonic() < deadline:
        pending = find_unpublished(pk__gt=last_id, **keys).order_by("pk")
        key_ids = list(pending.values_list("pk", flat=True)[:PUBLISH_BATCH_SIZE])
        if not key_ids:
            break
        last_id = key_ids[-1]
        publish_batch(redis, key_ids, failed)
        if "" in failed:  # Without a cluster, all other keys would fail as well.
            break
    for error in failed.values():
        raise error


def publish_batch(
    redis: RedisQuotaStore, key_ids: list[int], failed: dict[str, RedisUnavailableError]
) -> None:
    """Publish these keys. Skips the nodes in `failed`, and adds those that fail now."""
    records = read_records(key_ids)
    deleted = set(key_ids) - {record.id for record in records}
    Publication.objects.filter(pk__in=deleted).delete()
    by_node: dict[str, list[KeyRecord]] = {}
    for record in records:
        by_node.setdefault(redis.get_node_name(record.public_id), []).append(record)
    for node, batch in by_node.items():
        if node not in failed:
            try:
                record_published(batch, redis.publish_all(batch))
            except RedisUnavailableError as error:
                failed[node] = error


def record_published(records: list[KeyRecord], replies: list[tuple[bool, int]]) -> None:
    """Record the published versions. Redis rejects outdated records, and replies with its own version."""
    results = list(zip(records, replies, strict=True))
    published = [(record.version, record.id, record.version) for record, (stored, _) in results if stored]
    outdated = {record.id: version for record, (stored, version) in results if not stored}
    if published:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(MARK_PUBLISHED, published)
    if outdated:
        restore_lost_versions(outdated)


def restore_lost_versions(redis_versions: dict[int, int]) -> None:
    """Raise versions above those in Redis if the database has lost them.

    Usually, a later change has incremented the version, and nothing is left to do. If the database is still
    behind, a backup was restored, or a standby that lacked the latest changes became the primary.
    """
    lost = [
        (record.id, redis_versions[record.id] + 1)
        for record in read_records(list(redis_versions))
        if record.version < redis_versions[record.id]
    ]
    if lost:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(RAISE_VERSION, lost)


def read_records(key_ids: list[int]) -> list[KeyRecord]:
    return [key_record.from_row(row) for row in key_record.QUERY.filter(pk__in=key_ids).order_by("pk")]


@receiver(post_save, sender=ApiKey)
def publish_key(instance: ApiKey, created: bool, **kwargs: Any) -> None:
    if created:
        lock_limits(instance.account_id)
    publish("pk", instance.pk)


@receiver(post_save, sender=Account)
def publish_account(instance: Account, created: bool, **kwargs: Any) -> None:
    if not created:
        lock_limits(instance.pk)
        publish("account", instance.pk)


@receiver(post_save, sender=Plan)
def publish_plan(instance: Plan, **kwargs: Any) -> None:
    publish("account__plan", instance.pk)


@receiver(post_save, sender=KeyStanding)
def publish_rate_limit_state(instance: KeyStanding, **kwargs: Any) -> None:
    # The request that triggers a ban must not wait for an unavailable Redis.
    publish("pk", instance.key_id, on_commit=not store.is_redis_unavailable())


@receiver(post_delete, sender=ApiKey)
def delete_cached_record(instance: ApiKey, **kwargs: Any) -> None:
    # The application revokes keys; this is for keys that were deleted by hand.
    if store.redis is not None:
        transaction.on_commit(partial(store.redis.delete_record, instance.public_id), robust=True)


def start() -> None:
    """Start the write-behind thread, which also publishes pending changes."""
    STORE_UP.labels("redis" if store.redis else "database").set(1)
    write_behind.recorder.start(retry_publishing)
