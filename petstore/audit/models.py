"""The append-only audit trail, and failed sign-ins."""

from datetime import timedelta
from typing import Self

from django.db import models
from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from petstore.audit.actions import labels
from petstore.db.batches import delete_in_batches
from petstore.db.keysets import TwoFilterKey


class AuditQuerySet(QuerySet["AuditEntry"]):
    def for_object(self, obj: models.Model) -> Self:
        """Select the entries of a row, newest first."""
        entries = self.filter(model=obj._meta.label_lower, object_id=str(obj.pk))
        return entries.alias(key=TwoFilterKey("id")).order_by("-key")


class AuditEntry(models.Model):
    """An action of a user, a command or the service.

    Database triggers reject UPDATE, DELETE and TRUNCATE. Entries store IDs and names instead of foreign
    keys, so they outlive users and objects.
    """

    at = models.DateTimeField(default=timezone.now, db_index=True)
    actor_id = models.BigIntegerField(null=True, help_text="The id of the member of staff, where known.")
    actor_name = models.CharField("by", max_length=150, blank=True)
    action = models.CharField(max_length=20)  # See `audit.register`.
    model = models.CharField(max_length=100, blank=True)
    object_id = models.CharField("object's id", max_length=255, blank=True)
    object_text = models.CharField("object", max_length=255, blank=True)
    before = models.JSONField("old values", default=dict, help_text="Of the fields that changed.")
    after = models.JSONField("new values", default=dict, help_text="Of the fields that changed.")
    reason = models.CharField(max_length=500, blank=True)
    address = models.GenericIPAddressField("from address")
    request_id = models.CharField(max_length=128, blank=True)

    objects = AuditQuerySet.as_manager()

    class Meta:
        app_label = "backoffice"
        verbose_name = "audit trail entry"
        verbose_name_plural = "audit trail entries"
        ordering = ["-id"]
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["actor_id", "-id"], name="audit_by_staff"),
            models.Index(fields=["action", "-id"], name="audit_by_action"),
            models.Index(fields=["model", "-id"], name="audit_by_model"),
            models.Index("object_id", "model", TwoFilterKey("id"), name="audit_by_object_and_model"),
            models.Index(fields=["object_text", "-id"], name="audit_by_object_text"),
            models.Index(fields=["request_id", "-id"], name="audit_by_request"),
        ]

    def get_action_display(self) -> str:
        return labels.get(self.action, self.action)

    def __str__(self) -> str:
        actor, action = self.actor_name or "Unknown", self.get_action_display().lower()
        return f"{actor}: {action} {self.object_text}".strip()


class FailedSignInQuerySet(QuerySet["FailedSignIn"]):
    def prune(self) -> None:
        """Delete rows beyond RETENTION_DAYS or MAX_ROWS.

        IDs only increase, so a range of MAX_ROWS IDs contains at most that many rows.
        """
        newest_id = self.aggregate(newest=Max("pk"))["newest"] or 0
        oldest_at = timezone.now() - timedelta(days=FailedSignIn.RETENTION_DAYS)
        for surplus in (Q(at__lt=oldest_at), Q(pk__lte=newest_id - FailedSignIn.MAX_ROWS)):
            sum(delete_in_batches(self.filter(surplus)))


class FailedSignIn(models.Model):
    """A wrong password or code, or an unknown name.

    The audit trail leaves these out, because anonymous clients can cause any number of them.
    """

    RETENTION_DAYS = 30
    MAX_ROWS = 100_000

    at = models.DateTimeField(default=timezone.now, db_index=True)
    # Unknown names are not stored, because they may be passwords.
    user_id = models.BigIntegerField(null=True)
    username = models.CharField("name", max_length=150, blank=True)
    reason = models.CharField(max_length=500)
    address = models.GenericIPAddressField("from address")
    request_id = models.CharField(max_length=128, blank=True)

    objects = FailedSignInQuerySet.as_manager()

    class Meta:
        app_label = "backoffice"
        verbose_name = "failed sign-in"
        ordering = ["-id"]
        default_permissions = ()  # Access requires the permission to view the audit trail.
        indexes = [
            models.Index(fields=["user_id", "-id"], name="failed_sign_in_by_user"),
            models.Index(fields=["username", "-id"], name="failed_sign_in_by_name"),
            models.Index(fields=["request_id", "-id"], name="failed_sign_in_by_request"),
        ]

    def __str__(self) -> str:
        return f"{self.username or 'Unknown name'}: {self.reason}"
