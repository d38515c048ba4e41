"""The queue of emails. Entries contain addresses and links, so they are deleted once they are sent."""

from datetime import timedelta
from uuid import uuid4

from django.db import models
from django.db.models import QuerySet
from django.utils import timezone

RETRY_PERIOD = timedelta(days=3)
# The first is longer than an attempt, in which each step may take EMAIL_TIMEOUT.
MIN_DELAY, MAX_DELAY = timedelta(minutes=2), timedelta(hours=1)
DISCARDED = "discarded@mail.invalid"  # A recipient to whom nothing is sent (RFC 6761 section 6.4).


class QueuedMail(models.Model):
    """A plain-text email to one recipient."""

    id = models.UUIDField(primary_key=True, default=uuid4)
    recipient = models.EmailField()
    subject = models.CharField(max_length=255)
    body = models.TextField()
    created_at = models.DateTimeField(default=timezone.now)
    next_attempt_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.pk)

    def claim(self) -> bool:
        """Schedule the next attempt, in case this one fails. Returns False if another process did so."""
        now = timezone.now()
        next_attempt_at = now + min(max(now - self.created_at, MIN_DELAY), MAX_DELAY)
        unclaimed = QueuedMail.objects.filter(pk=self.pk, next_attempt_at=self.next_attempt_at)
        return unclaimed.update(next_attempt_at=next_attempt_at) == 1


def find_expired() -> QuerySet[QueuedMail]:
    return QueuedMail.objects.filter(created_at__lt=timezone.now() - RETRY_PERIOD)
