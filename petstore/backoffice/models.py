"""The append-only audit trail, and failed sign-ins."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models import Max, QuerySet
from django.utils import timezone


class AuditQuerySet(QuerySet["AuditEntry"]):
    def about(self, row: models.Model) -> AuditQuerySet:
        return self.filter(model=row._meta.label_lower, object_id=str(row.pk))


class AuditEntry(models.Model):
    """An action of a user, a command or the service.

    Database triggers reject UPDATE, DELETE and TRUNCATE. Entries have no foreign keys: they store names,
    and outlive users and objects.
    """

    class Action(models.TextChoices):
        ADDED = "added", "Added"
        CHANGED = "changed", "Changed"
        DELETED = "deleted", "Deleted"
        EXPORTED = "exported", "Exported"
        ISSUED = "issued", "Issued"
        ROTATED = "rotated", "Rotated"
        REVOKED = "revoked", "Revoked"
        BANNED = "banned", "Banned"
        UNBANNED = "unbanned", "Unbanned"
        SUSPENDED = "suspended", "Suspended"
        SUSPENSION_LIFTED = "suspension_lifted", "Suspension lifted"
        PASSWORD_ACCEPTED = "password_accepted", "Gave the password"
        SIGNED_IN = "signed_in", "Signed in"
        SIGN_IN_FAILED = "sign_in_failed", "Failed to sign in"
        SIGNED_OUT = "signed_out", "Signed out"
        TWO_FACTOR_ON = "two_factor_on", "Turned two-factor on"
        TWO_FACTOR_OFF = "two_factor_off", "Turned two-factor off"
        TWO_FACTOR_RESET = "two_factor_reset", "Reset a colleague's two-factor"
        RECOVERY_CODES = "recovery_codes", "Made new recovery codes"

    # The list hides these by default: they are many and change no data.
    SIGN_INS = (Action.PASSWORD_ACCEPTED, Action.SIGNED_IN, Action.SIGN_IN_FAILED, Action.SIGNED_OUT)

    at = models.DateTimeField(default=timezone.now, db_index=True)
    actor_id = models.BigIntegerField(null=True, help_text="The id of the member of staff, where known.")
    actor_name = models.CharField("by", max_length=150, blank=True)
    action = models.CharField(max_length=20, choices=Action)
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
        verbose_name = "audit trail entry"
        verbose_name_plural = "audit trail entries"
        ordering = ["-id"]
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["actor_id", "-id"], name="audit_by_staff"),
            models.Index(fields=["action", "-id"], name="audit_by_action"),
            models.Index(fields=["model", "-id"], name="audit_by_model"),
            models.Index(fields=["object_id", "-id"], name="audit_by_object"),
            models.Index(fields=["object_text", "-id"], name="audit_by_object_text"),
            models.Index(fields=["request_id", "-id"], name="audit_by_request"),
        ]

    def __str__(self) -> str:
        who, did = self.actor_name or "Unknown", self.get_action_display().lower()
        return f"{who}: {did} {self.object_text}".strip()


class FailedSignInQuerySet(QuerySet["FailedSignIn"]):
    def prune(self) -> None:
        """Delete rows older than KEPT_DAYS, and the oldest beyond KEPT_MOST, at most 10,000 of each.

        Ids only increase, so a range of KEPT_MOST ids holds at most that many rows.
        """
        newest = self.aggregate(newest=Max("pk"))["newest"] or 0
        too_old = timezone.now() - timedelta(days=FailedSignIn.KEPT_DAYS)
        expired = self.filter(at__lt=too_old).order_by("at")
        surplus = self.filter(pk__lte=newest - FailedSignIn.KEPT_MOST).order_by("pk")
        for rows in (expired, surplus):
            self.filter(pk__in=list(rows.values_list("pk", flat=True)[:10_000])).delete()


class FailedSignIn(models.Model):
    """A wrong password or code. Not in the audit trail, since anonymous clients can cause any number."""

    KEPT_DAYS = 30
    KEPT_MOST = 100_000

    at = models.DateTimeField(default=timezone.now, db_index=True)
    # No foreign key, as in the audit trail. Unknown names are not stored: they may be passwords.
    user_id = models.BigIntegerField(null=True)
    username = models.CharField("name", max_length=150, blank=True)
    reason = models.CharField(max_length=500)
    address = models.GenericIPAddressField("from address")
    request_id = models.CharField(max_length=128, blank=True)

    objects = FailedSignInQuerySet.as_manager()

    class Meta:
        verbose_name = "failed sign-in"
        ordering = ["-id"]
        default_permissions = ()  # Access requires permission to view the audit trail.
        indexes = [
            models.Index(fields=["user_id", "-id"], name="failed_sign_in_by_user"),
            models.Index(fields=["username", "-id"], name="failed_sign_in_by_name"),
            models.Index(fields=["request_id", "-id"], name="failed_sign_in_by_request"),
        ]

    def __str__(self) -> str:
        return f"{self.username or 'Unknown name'}: {self.reason}"
