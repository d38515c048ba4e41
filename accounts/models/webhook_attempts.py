"""Attempts to deliver events to webhook endpoints (D51 to D57)."""

from datetime import datetime, timedelta

from django.db import models
from django.db.models import Index, Q
from django.utils import timezone

from accounts.models.records import Record
from accounts.webhooks.sender import Failure
from petstore.db import batches

ATTEMPT_RETENTION, MAX_ATTEMPTS = timedelta(days=30), 10_000  # Per endpoint.


class WebhookAttemptManager(models.Manager["WebhookAttempt"]):
    def prune(self, now: datetime) -> None:
        """Delete attempts that are too old, or too many of an endpoint, but keep parked ones (D56)."""
        batches.prune(
            self, "endpoint_id", "created_at", now=now, retention=ATTEMPT_RETENTION, max_rows=MAX_ATTEMPTS,
            surplus=Q(parked=False),
        )  # fmt: skip


class WebhookAttempt(Record):
    """An attempt to deliver an event, or a gap of events that were no longer stored.

    `accounts/webhooks/backlog.py` has the body that was sent.
    """

    class Kind(models.TextChoices):
        DELIVERY = "delivery", "Delivery"
        AGAIN = "again", "Sent again"
        TEST = "test", "Test"
        LOST = "lost", "No longer stored"  # The events up to this ID that were not sent yet.

    endpoint = models.ForeignKey(
        "accounts.WebhookEndpoint", models.CASCADE, related_name="attempt_log", db_index=False
    )
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.DELIVERY)
    event_id = models.BigIntegerField()  # 0 for a test.
    event_type = models.CharField(max_length=30)
    # When it was made or, until then, requested.
    created_at = models.DateTimeField(default=timezone.now, db_index=True)
    # When a process has to make a requested attempt, until it is made.
    due_at = models.DateTimeField(null=True)
    status = models.PositiveSmallIntegerField(null=True)
    milliseconds = models.PositiveIntegerField(null=True)
    error = models.CharField(max_length=20, blank=True)  # A Failure; empty after a success.
    response = models.TextField(blank=True)  # The beginning.
    next_attempt_at = models.DateTimeField(null=True)
    # The endpoint rejected the event, and delivery went on without it.
    parked = models.BooleanField(default=False)

    objects = WebhookAttemptManager()

    class Meta:
        ordering = ["-pk"]
        default_permissions = ()
        indexes = [
            Index(fields=["endpoint", "-id"], name="attempt_of_webhook"),
            Index(
                fields=["endpoint", "event_id"], name="parked_event_of_webhook", condition=Q(parked=True)
            ),
            Index(fields=["due_at"], name="attempt_by_due_time", condition=Q(due_at__isnull=False)),
        ]

    @property
    def message_id(self) -> str:
        """The header `webhook-id` (D52)."""
        return f"evt_{self.event_id or f'test_{self.pk}'}"

    @property
    def is_pending(self) -> bool:
        return self.due_at is not None

    def describe_outcome(self) -> tuple[str, str]:
        """Return the state (up, degraded or down, like the status page) and its text."""
        if self.kind == self.Kind.LOST:
            return "down", "Earlier events were no longer stored"
        if self.is_pending:
            return "degraded", "Pending"
        if not self.error or self.error == Failure.STATUS:
            return "down" if self.error else "up", f"{self.status}"
        return "down", Failure(self.error).label
