"""Samples of the service's state, and incidents, for the status page."""

from django.db import models
from django.db.models import CheckConstraint, F, Q

from accounts.models.records import Record


class State(models.TextChoices):
    UP = "up", "Up"
    DEGRADED = "degraded", "Degraded"
    DOWN = "down", "Down"


class StatusSample(Record):
    """The states of the service's parts in one minute. Workers write and prune samples (sampling.py)."""

    minute = models.BigIntegerField(primary_key=True, help_text="Minutes since the epoch.")
    api = models.CharField(max_length=8, choices=State)
    database = models.CharField(max_length=8, choices=State)

    class Meta:
        default_permissions = ()


class Incident(models.Model):
    """An incident that staff describe on the status page."""

    title = models.CharField(max_length=200)
    text = models.TextField(max_length=5000, help_text="Plain text, visible to the public.")
    starts_at = models.DateTimeField("from", help_text="In UTC. The incident is shown from this time on.")
    ends_at = models.DateTimeField(
        "to", null=True, blank=True, help_text="In UTC. Leave empty until it ends."
    )

    class Meta:
        ordering = ["-starts_at"]
        constraints = [
            CheckConstraint(
                name="incident_ends_after_it_starts",
                condition=Q(ends_at=None) | Q(ends_at__gte=F("starts_at")),
                violation_error_message="An incident can't end before it starts.",
            )
        ]

    def __str__(self) -> str:
        return self.title
