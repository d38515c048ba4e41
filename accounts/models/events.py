"""Events: what happened to pets, orders, keys and accounts, in the order of the feed (D40 to D42).

Whoever changes something writes an EventDraft in the same transaction. accounts/events numbers what is
committed: ids that were taken before the commit would become visible out of order, and a reader that asks
for what comes after the last one would miss some.

Times are whole microseconds since the epoch, so that one SQL text can compare them on every database.
"""

from __future__ import annotations

import time
from typing import Any

import orjson
from django.db import connection, models, transaction
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint
from django.utils import timezone

from accounts.models.records import Record
from petstore.db.identity import is_postgresql
from petstore.db.keysets import OneFilterKey, TwoFilterKey

PUBLIC = 0  # Stands for the account in events that everybody sees.


class EventType(models.TextChoices):
    """What happened (D41)."""

    PET_CREATED = "pet.created"
    PET_UPDATED = "pet.updated"
    PET_STATUS_CHANGED = "pet.status_changed"
    PET_DELETED = "pet.deleted"
    PETS_IMPORTED = "pets.imported"
    ORDER_PLACED = "order.placed"
    ORDER_APPROVED = "order.approved"
    ORDER_SHIPPED = "order.shipped"
    ORDER_DELIVERED = "order.delivered"
    ORDER_CANCELLED = "order.cancelled"
    KEY_ISSUED = "key.issued"
    KEY_ROTATED = "key.rotated"
    KEY_REVOKED = "key.revoked"
    KEY_BANNED = "key.banned"
    KEY_UNBANNED = "key.unbanned"
    KEY_EXPIRING = "key.expiring"
    PLAN_CHANGED = "plan.changed"
    QUOTA_REACHED = "quota.reached"

    @property
    def is_public(self) -> bool:
        """Whether every account sees such events."""
        return self.value.startswith("pet")


def now() -> int:
    return time.time_ns() // 1000


class EventFields(Record):
    account_id = models.BigIntegerField(help_text="The account that sees it; 0: everybody does.")
    type = models.CharField(max_length=30)
    created_at = models.BigIntegerField(default=now)
    data = models.TextField(help_text="JSON.")

    class Meta:
        abstract = True


class EventDraft(EventFields):
    """An event that has no place in the feed yet: its transaction may still be open."""

    class Meta:
        constraints = [
            CheckConstraint(
                name="event_is_public_or_of_an_account",
                condition=Q(account_id=PUBLIC, type__startswith="pet")
                | (Q(account_id__gt=PUBLIC) & ~Q(type__startswith="pet")),
            )
        ]

    @classmethod
    def of(cls, kind: EventType, data: Any, account_id: int = PUBLIC) -> EventDraft:
        """Return an event of now, to be written; `data` as the API shows it."""
        text = orjson.dumps(data, option=orjson.OPT_UTC_Z).decode()
        return cls(account_id=account_id, type=kind.value, data=text)

    def once(self, subject_id: int, threshold: int, window: int) -> bool:
        """Write a warning, once for a key or account, threshold and window; tell if it is the first."""
        with transaction.atomic():
            _, is_new = Warned.objects.get_or_create(
                type=self.type,
                subject_id=subject_id,
                threshold=threshold,
                of_window=window,
                defaults={"at": timezone.now()},
            )
            if is_new:
                self.save()
        return is_new


class Event(EventFields):
    """An event in its place. Only ever added to, in ascending ids without gaps, and cleared from below."""

    id = models.BigIntegerField(primary_key=True)
    numbered_at = models.BigIntegerField(help_text="Never falls from one id to the next.")

    class Meta:
        indexes = [
            Index("account_id", OneFilterKey("id"), name="event_of_account"),
            Index("account_id", "type", TwoFilterKey("id"), name="event_of_account_and_type"),
            # For staff, who look at the events of all accounts.
            Index(
                "type", OneFilterKey("id"), name="private_event_of_type", condition=Q(account_id__gt=PUBLIC)
            ),
        ]


class Feed(Record):
    """How far the feed goes: one row. Whoever adds to it or clears it holds its lock."""

    last_id = models.BigIntegerField(default=0, help_text="Of the newest event.")
    numbered_at = models.BigIntegerField(default=0, help_text="When that one was numbered.")
    cleared_id = models.BigIntegerField(default=0, help_text="Events up to this one are gone.")
    cleared_at = models.BigIntegerField(default=0, help_text="When the last that is gone was numbered.")

    swept_at = models.BigIntegerField(default=0, help_text="When warnings were last looked for.")

    class Meta:
        constraints = [
            CheckConstraint(name="feed_is_one_row", condition=Q(id=1)),
            CheckConstraint(name="feed_keeps_what_is_new", condition=Q(cleared_id__lte=F("last_id"))),
        ]

    @classmethod
    def held(cls) -> Feed:
        """Return the feed, locked until the transaction ends.

        A process that hangs loses it, with the transaction.
        """
        if is_postgresql():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '5s'")
        return cls.objects.select_for_update().get()


class Warned(Record):
    """An event that must come once: of this type, about this key or account, in this window."""

    type = models.CharField(max_length=30)
    subject_id = models.BigIntegerField()
    threshold = models.SmallIntegerField(help_text="Per cent, or days before the end; 0 for a ban.")
    of_window = models.BigIntegerField(help_text="The day, the key's end, or the beginning of the ban.")
    at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            UniqueConstraint(
                name="one_warning_for_each_window", fields=["type", "subject_id", "threshold", "of_window"]
            )
        ]
