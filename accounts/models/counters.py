"""What the service keeps about requests: quota, strikes and bans, daily usage, answers to repeat."""

from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from accounts.models.publications import Published


class QuotaCounter(models.Model):
    """What an account has used of its two windows. Written by accounts/quota alone.

    Times are whole microseconds since the epoch, days whole days, so that one SQL text can calculate with
    them on every database.
    """

    account = models.OneToOneField(
        "accounts.Account", on_delete=models.CASCADE, primary_key=True, related_name="quota"
    )
    minute_ends = models.BigIntegerField()
    minute_used = models.BigIntegerField()
    day = models.BigIntegerField()
    day_used = models.BigIntegerField()
    day_here = models.BigIntegerField(
        default=0, db_default=0, help_text="Of day_used, what the database itself admitted; Redis the rest."
    )
    seen_at = models.BigIntegerField()
    admitted = models.BooleanField(help_text="Whether the request that wrote the row was admitted.")

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="quota_counts_from_zero", condition=Q(minute_used__gte=0, day_used__gte=0)
            )
        ]

    def __str__(self) -> str:
        return f"quota of account {self.account_id}"


class KeyStanding(Published):
    """A key's refusals, strikes and ban (D26). Written by accounts/quota alone, but for lifting a ban.

    Times are whole microseconds since the epoch.
    """

    key = models.OneToOneField(
        "accounts.ApiKey", on_delete=models.CASCADE, primary_key=True, related_name="standing"
    )
    told_until = models.BigIntegerField(default=0, help_text="When the last Retry-After runs out.")
    strikes = models.BigIntegerField(default=0)
    strikes_end = models.BigIntegerField(default=0, help_text="When the strikes are forgotten.")
    banned_at = models.BigIntegerField(default=0)
    banned_until = models.BigIntegerField(default=0, db_index=True)
    ban_level = models.BigIntegerField(default=0, help_text="How many steps the next ban starts from.")
    lifts = models.BigIntegerField(
        default=0, db_default=0, help_text="Bans lifted by staff: what Redis knows from before is void."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="standing_counts_from_zero", condition=Q(strikes__gte=0, ban_level__gte=0)
            ),
            models.CheckConstraint(
                name="ban_ends_after_it_began", condition=Q(banned_until__gte=F("banned_at"))
            ),
        ]

    def __str__(self) -> str:
        return f"standing of key {self.key_id}"


class Publication(models.Model):
    """What Redis has to be told of a key, and has been told. Written by accounts/quota/publishing.py alone.

    Whatever changes the facts of a key raises its version in the same transaction. So whoever read a lower
    version read earlier, whatever any clock says; and what was not told stays on record until it is.
    """

    key = models.OneToOneField(
        "accounts.ApiKey",
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="publication",
        db_constraint=False,  # It holds no key back, and no change waits for another.
    )
    version = models.BigIntegerField()
    told = models.BigIntegerField(help_text="The version that Redis was told last.")

    class Meta:
        indexes = [
            models.Index(fields=["key"], name="publication_untold", condition=Q(told__lt=F("version")))
        ]

    def __str__(self) -> str:
        return f"version {self.version} of key {self.key_id}"


class DailyUsage(models.Model):
    """How many requests a key sent on one UTC day. Written behind, every few seconds."""

    key = models.ForeignKey("accounts.ApiKey", on_delete=models.CASCADE, related_name="usage")
    day = models.DateField()
    requests = models.BigIntegerField(default=0, help_text="Those that were admitted.")
    refusals = models.BigIntegerField(default=0, help_text="Those that were answered with 429.")

    class Meta:
        verbose_name_plural = "daily usage"
        indexes = [models.Index(fields=["day"], name="usage_by_day")]
        constraints = [
            models.UniqueConstraint(name="one_usage_for_each_key_and_day", fields=["key", "day"]),
            models.CheckConstraint(
                name="usage_counts_from_zero", condition=Q(requests__gte=0, refusals__gte=0)
            ),
        ]

    def __str__(self) -> str:
        return f"usage of key {self.key_id} on {self.day}"


class IdempotencyRecord(models.Model):
    """The first answer to a request that may be sent again (D31). Written with what the request wrote."""

    account = models.ForeignKey("accounts.Account", on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64, help_text="Of method, path and body.")
    status = models.PositiveSmallIntegerField(null=True)
    location = models.CharField(max_length=1024, blank=True)
    body = models.BinaryField(default=bytes)
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="one_answer_for_an_idempotency_key", fields=["account", "key"])
        ]

    def __str__(self) -> str:
        return f"idempotency key of account {self.account_id}"
