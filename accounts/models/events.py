"""Events of pets, orders, keys and accounts (D40 to D42).

A change writes an outbox entry (EventDraft) in its own transaction. accounts/events/sequencing.py numbers
the entries after the commit. Ids assigned before the commit would become visible out of order, and a reader
that continues after the last one would miss some.

Times are microseconds since the epoch, so that the same SQL compares them on every database.
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

PUBLIC = 0  # The account_id of public events.


class EventType(models.TextChoices):
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
    """An outbox entry: an event without a sequence number. Its transaction may still be open."""

    class Meta:
        constraints = [
            CheckConstraint(
                name="event_is_public_or_of_an_account",
                condition=Q(account_id=PUBLIC, type__startswith="pet")
                | (Q(account_id__gt=PUBLIC) & ~Q(type__startswith="pet")),
            )
        ]

    @classmethod
    def build(cls, kind: EventType, data: Any, account_id: int = PUBLIC) -> EventDraft:
        """Return an event of now, to be written; `data` as the API shows it."""
        text = orjson.dumps(data, option=orjson.OPT_UTC_Z).decode()
        return cls(account_id=account_id, type=kind.value, data=text)

    def save_once(self, subject_id: int, threshold: int, window: int) -> bool:
        """Save the warning unless Warned has it; return whether it was saved."""
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
    """A sequenced event. Rows are added with ascending ids without gaps, and pruned from the oldest."""

    id = models.BigIntegerField(primary_key=True)
    numbered_at = models.BigIntegerField(help_text="Never falls from one id to the next.")

    class Meta:
        indexes = [
            Index("account_id", OneFilterKey("id"), name="event_of_account"),
            Index("account_id", "type", TwoFilterKey("id"), name="event_of_account_and_type"),
            # For staff, who see the events of all accounts.
            Index(
                "type", OneFilterKey("id"), name="private_event_of_type", condition=Q(account_id__gt=PUBLIC)
            ),
        ]


class Feed(Record):
    """The single row with the bounds of the feed. Sequencing and pruning lock it."""

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
    def lock(cls) -> Feed:
        """Lock the row until the transaction ends. PostgreSQL ends an idle one after 5 seconds."""
        if is_postgresql():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '5s'")
        return cls.objects.select_for_update().get()


class Warned(Record):
    """A warning that was sent: of this type, about this key or account, in this window."""

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
