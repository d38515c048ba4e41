"""Samples of the service's state, and incidents, for the status page."""

from datetime import datetime, timedelta
from typing import Self

from django.db import models
from django.db.models import OuterRef, Prefetch, Q, QuerySet, Subquery
from django.utils import timezone

from accounts.models.records import Record

DAYS, MAX_INCIDENTS = 90, 200  # On the status page.
PARTS = {"api": "API", "database": "Database"}  # By field of StatusSample.


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


class StatusDay(Record):
    """The samples of a past UTC day by part and state, as `count_samples` counts them."""

    day = models.BigIntegerField(primary_key=True, help_text="Days since the epoch.")
    api_up = models.SmallIntegerField()
    api_degraded = models.SmallIntegerField()
    api_down = models.SmallIntegerField()
    database_up = models.SmallIntegerField()
    database_degraded = models.SmallIntegerField()
    database_down = models.SmallIntegerField()

    class Meta:
        default_permissions = ()


class Impact(models.TextChoices):
    NONE = "none", "None"
    MINOR = "minor", "Minor"
    MAJOR = "major", "Major"
    CRITICAL = "critical", "Critical"


class Stage(models.TextChoices):
    INVESTIGATING = "investigating", "Investigating"
    IDENTIFIED = "identified", "Identified"
    MONITORING = "monitoring", "Monitoring"
    RESOLVED = "resolved", "Resolved"


class IncidentQuerySet(QuerySet["Incident"]):
    def with_stage(self, now: datetime) -> Self:
        """Annotate stage and time of the latest update. Updates with a future time are not posted yet."""
        posted = IncidentUpdate.objects.filter(incident=OuterRef("pk"), posted_at__lte=now)
        return self.annotate(
            stage=Subquery(posted.values("stage")[:1]),
            latest_update=Subquery(posted.values("posted_at")[:1]),
        )

    def count_open(self, now: datetime) -> int:
        return self.recent(now).exclude(Q(stage=Stage.RESOLVED)).count()

    def recent(self, now: datetime) -> Self:
        """Select incidents that are open or were resolved in the last DAYS, latest first, with updates.

        Only of the newest MAX_INCIDENTS, so that the work does not grow with the history.
        """
        newest = self.order_by("-pk").values("pk")[:MAX_INCIDENTS]
        posted = Prefetch("updates", IncidentUpdate.objects.filter(posted_at__lte=now))
        incidents = (
            self.filter(pk__in=newest).with_stage(now).exclude(stage=None).order_by("-latest_update", "-pk")
        )
        oldest = now - timedelta(days=DAYS)
        return incidents.exclude(stage=Stage.RESOLVED, latest_update__lt=oldest).prefetch_related(posted)


class Incident(models.Model):
    """An incident that staff describe on the status page. It lasts from its first to its last update."""

    title = models.CharField(max_length=200)
    impact = models.CharField(max_length=8, choices=Impact, default=Impact.MINOR, db_default=Impact.MINOR)

    # Set by with_stage().
    stage: str | None = None
    latest_update: datetime | None = None

    objects = IncidentQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return self.title

    def get_related_values(self) -> dict[str, str]:
        """Describe the updates, for the audit trail and to detect edit conflicts."""
        updates = self.updates.all() if self.pk else []
        return {f"update {update.pk}": f"{update}: {update.text}" for update in updates}


class IncidentUpdate(models.Model):
    """An update to an incident, such as that its cause is identified."""

    incident = models.ForeignKey(Incident, models.CASCADE, related_name="updates")
    stage = models.CharField(max_length=13, choices=Stage, default=Stage.INVESTIGATING)
    posted_at = models.DateTimeField(
        "from", default=timezone.now, help_text="In UTC. The update is shown from this time on."
    )
    text = models.TextField(max_length=5000, help_text="Plain text, visible to the public.")

    class Meta:
        verbose_name = "update"
        ordering = ["-posted_at", "-pk"]
        default_permissions = ()  # Access requires the permission for the incident.

    def __str__(self) -> str:
        return f"{self.get_stage_display()}, {self.posted_at:%Y-%m-%d %H:%M} UTC"
