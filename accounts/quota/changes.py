"""Makes changes hold on the next request, on every worker of every machine (D19, D27).

The database store reads each key anew, so only Redis has to be told. It is told after the commit, with what
the database then says: whoever read earlier can't overwrite it (see publish.lua).
"""

import logging
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django.utils import timezone

from accounts.models import Account, ApiKey, KeyStanding, Plan
from accounts.quota import facts, store
from accounts.quota.redis import FACTS_KEPT
from petstore.engine.scripts import RedisUnavailableError

logger = logging.getLogger(__name__)

NOT_TOLD = (
    "The change is saved, but Redis could not be told: a worker that still reaches Redis may go on "
    f"with the old state for up to {FACTS_KEPT // 1000} seconds. (%s)"
)


def publish(*, forget_standing: bool = False, **keys: Any) -> None:
    """Tell Redis, after the commit, of the keys that these lookups choose."""
    if store.redis is not None:
        transaction.on_commit(partial(tell_redis, forget_standing, keys))


def tell_redis(forget_standing: bool, keys: dict[str, Any]) -> None:
    """Read the keys and publish them."""
    assert store.redis is not None
    try:
        for row in facts.QUERY.filter(**keys).iterator():
            store.redis.publish(facts.from_row(row), forget_standing=forget_standing)
    except RedisUnavailableError as error:
        logger.error(NOT_TOLD, error)


@receiver(post_save, sender=ApiKey)
def key_saved(instance: ApiKey, **kwargs: Any) -> None:
    """Tell of a key that was issued, renamed, rotated or revoked."""
    publish(pk=instance.pk)


@receiver(post_save, sender=Account)
def account_saved(instance: Account, created: bool, **kwargs: Any) -> None:
    """Tell of an account that moved to another plan, or to other numbers."""
    if not created:
        publish(account=instance.pk)


@receiver(post_save, sender=Plan)
def plan_saved(instance: Plan, **kwargs: Any) -> None:
    """Tell of a plan that was given other numbers."""
    publish(account__plan=instance.pk)


@receiver(post_save, sender=KeyStanding)
def standing_saved(instance: KeyStanding, **kwargs: Any) -> None:
    """Tell of a ban; when it is over, have Redis forget what it knows of strikes and ban."""
    now = facts.microseconds(timezone.now())
    publish(pk=instance.key_id, forget_standing=instance.banned_until <= now)


@receiver(post_delete, sender=ApiKey)
def key_deleted(instance: ApiKey, **kwargs: Any) -> None:
    """Drop a key that somebody deleted by hand: the application itself never does."""
    if store.redis is not None:
        transaction.on_commit(partial(store.redis.forget, instance.public_id), robust=True)
