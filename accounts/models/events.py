"""Events of pets, orders, keys, members and accounts (D40 to D42).

A change writes an outbox entry (OutboxEvent) in its own transaction. After the commit,
accounts/events/sequencing.py assigns the entries their sequence numbers, which are the IDs of the events.
IDs assigned before the commit would become visible out of order, and a client that continues after the
latest one would miss events.

Times are microseconds since the epoch, so that the same SQL works on both databases.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import orjson
from django.db import connection, models, transaction
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint
from django.utils import timezone

from accounts.models.records import Record
from petstore.db.identity import is_postgresql
from petstore.db.keysets import OneFilterKey, TwoFilterKey

NULL_ID = '"id":null'  # No string of the data contains it, because JSON escapes the quotes.
PUBLIC_ACCOUNT_ID = 0  # The account_id of public events.


INSERT_WITH_EVENT = """
WITH inserted AS (INSERT INTO "{table}" ({columns}) VALUES ({values}) RETURNING id),
event AS (
    INSERT INTO accounts_outboxevent (account_id, type, created_at, data)
    SELECT %s, %s, %s, replace(%s, '"id":null', '"id":' || id) FROM inserted
)
SELECT id FROM inserted
"""


class EventType(models.TextChoices):
    """The labels tell members what a webhook sends."""

    PET_CREATED = "pet.created", "A pet was added"
    PET_UPDATED = "pet.updated", "A pet was changed"
    PET_STATUS_CHANGED = "pet.status_changed", "The status of a pet has changed"
    PET_DELETED = "pet.deleted", "A pet was removed"
    PETS_IMPORTED = "pets.imported", "More than 1,000 pets were imported at once"
    ORDER_PLACED = "order.placed", "An order was placed"
    ORDER_APPROVED = "order.approved", "An order was approved"
    ORDER_SHIPPED = "order.shipped", "An order was shipped"
    ORDER_DELIVERED = "order.delivered", "An order was delivered"
    ORDER_RETURNED = "order.returned", "The pet of an order was returned"
    ORDER_CANCELLED = "order.cancelled", "An order was cancelled"
    KEY_ISSUED = "key.issued", "A key was issued"
    KEY_ROTATED = "key.rotated", "A key was rotated"
    KEY_NARROWED = "key.narrowed", "A key was restricted"
    KEY_REVOKED = "key.revoked", "A key was revoked"
    KEY_BANNED = "key.banned", "A key was banned"
    KEY_UNBANNED = "key.unbanned", "The ban of a key was lifted"
    KEY_EXPIRING = "key.expiring", "A key expires within a week, or within a day"
    MEMBER_INVITED = "member.invited", "A member was invited"
    MEMBER_JOINED = "member.joined", "A member has joined"
    MEMBER_REMOVED = "member.removed", "A member was removed"
    PLAN_CHANGED = "plan.changed", "The plan was changed"
    QUOTA_REACHED = "quota.reached", "80% or 100% of a day's requests are used"
    WEBHOOK_FAILING = "webhook.failing", "A webhook has failed for an hour, or for a day"
    WEBHOOK_DISABLED = "webhook.disabled", "A webhook was disabled"
    WEBHOOK_ENABLED = "webhook.enabled", "A webhook was enabled"

    @property
    def is_public(self) -> bool:
        return self.value.startswith("pet")


# Each type, and each prefix of types, with the types that it selects. `pet` includes `pets.imported`.
TYPES = {
    prefix: tuple(kind for kind in EventType if kind.value.startswith(prefix))
    for kind in EventType
    for prefix in (kind.value, kind.value.partition(".")[0])
}


def now_in_microseconds() -> int:
    return time.time_ns() // 1000


class EventFields(Record):
    account_id = models.BigIntegerField(help_text="The account that can read it, or 0 for a public event.")
    type = models.CharField(max_length=30)
    created_at = models.BigIntegerField(default=now_in_microseconds)
    data = models.TextField(help_text="JSON.")

    class Meta:
        abstract = True


class OutboxEvent(EventFields):
    """An outbox entry: an event without a sequence number. Its transaction may still be open."""

    class Meta:
        constraints = [
            CheckConstraint(
                name="event_account_matches_type",
                condition=Q(account_id=PUBLIC_ACCOUNT_ID, type__startswith="pet")
                | (Q(account_id__gt=PUBLIC_ACCOUNT_ID) & ~Q(type__startswith="pet")),
            )
        ]

    @classmethod
    def build(cls, event_type: EventType, data: Any, account_id: int = PUBLIC_ACCOUNT_ID) -> OutboxEvent:
        """Build an unsaved event. `data` is what the API returns as the event's data."""
        serialized = orjson.dumps(data, option=orjson.OPT_UTC_Z).decode()
        return cls(account_id=account_id, type=event_type.value, data=serialized)

    def insert_with(self, row: models.Model) -> None:
        """Insert a new row of any model, and this event. PostgreSQL needs one statement.

        If the event's data has the row's ID, which is still null, it gets the new one. Sends no signals.
        """
        if is_postgresql():
            fields = get_inserted_fields(type(row))
            values: list[Any] = [
                field.get_db_prep_save(field.pre_save(row, True), connection) for field in fields
            ]
            values += [self.account_id, self.type, self.created_at, self.data]
            with connection.cursor() as cursor:
                cursor.execute(compile_insert_with_event(type(row)), values)
                (row.pk,) = cursor.fetchone()
            row._state.adding, row._state.db = False, connection.alias
        else:
            with transaction.atomic(savepoint=False):
                type(row)._base_manager.bulk_create([row])
                self.data = self.data.replace(NULL_ID, f'"id":{row.pk}')
                self.save(force_insert=True)

    def save_once(self, subject_id: int, threshold: int, occurrence: int) -> bool:
        """Save this event unless it was already sent for this occurrence; return whether it was saved."""
        sent = {
            "type": self.type,
            "subject_id": subject_id,
            "threshold": threshold,
            "occurrence": occurrence,
        }
        with transaction.atomic():
            _, is_new = SentWarning.objects.get_or_create({"sent_at": timezone.now()}, **sent)
            if is_new:
                self.save()
        return is_new


def get_inserted_fields(model: type[models.Model]) -> list[models.Field[Any, Any]]:
    return [field for field in model._meta.concrete_fields if not field.primary_key]


@cache
def compile_insert_with_event(model: type[models.Model]) -> str:
    fields = get_inserted_fields(model)
    return INSERT_WITH_EVENT.format(
        table=model._meta.db_table,
        columns=", ".join(f'"{field.column}"' for field in fields),
        values=", ".join(["%s"] * len(fields)),
    )


class Event(EventFields):
    """A sequenced event. IDs ascend without gaps, and the oldest events are pruned first."""

    id = models.BigIntegerField(primary_key=True)
    sequenced_at = models.BigIntegerField(help_text="Never decreases from one ID to the next.")

    class Meta:
        indexes = [
            Index("account_id", OneFilterKey("id"), name="event_of_account"),
            Index("account_id", "type", TwoFilterKey("id"), name="event_of_account_and_type"),
            # For the back office, which lists the events of all accounts.
            Index(
                "type",
                OneFilterKey("id"),
                name="private_event_of_type",
                condition=Q(account_id__gt=PUBLIC_ACCOUNT_ID),
            ),
        ]


class Feed(Record):
    """The single row with the bounds of the feed. Sequencing and pruning lock it."""

    last_id = models.BigIntegerField(default=0, help_text="ID of the newest event.")
    last_sequenced_at = models.BigIntegerField(default=0, help_text="When the newest event was sequenced.")
    last_pruned_id = models.BigIntegerField(default=0, help_text="Events up to this ID have been pruned.")
    last_pruned_sequenced_at = models.BigIntegerField(
        default=0, help_text="When the newest pruned event was sequenced."
    )
    warnings_checked_at = models.BigIntegerField(
        default=0, help_text="When missed warnings were last checked for."
    )

    class Meta:
        constraints = [
            CheckConstraint(name="feed_single_row", condition=Q(id=1)),
            CheckConstraint(
                name="feed_pruned_id_within_bounds", condition=Q(last_pruned_id__lte=F("last_id"))
            ),
        ]

    @classmethod
    def lock(cls) -> Feed:
        """Lock and return the row. PostgreSQL ends the session if the transaction is idle for 5 seconds."""
        if is_postgresql():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '5s'")
        return cls.objects.select_for_update().get()


class SentWarning(Record):
    """A warning or ban event that was sent; prevents duplicates."""

    type = models.CharField(max_length=30)
    subject_id = models.BigIntegerField()
    threshold = models.SmallIntegerField(help_text="A percentage, or days before expiry; 0 for a ban.")
    occurrence = models.BigIntegerField(help_text="The day, the key's expiry, or the start of the ban.")
    sent_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            UniqueConstraint(
                name="unique_sent_warning", fields=["type", "subject_id", "threshold", "occurrence"]
            )
        ]
