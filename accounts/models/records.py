"""Quota counters, rate-limit state, publications, usage and the rejection log.

accounts/usage writes and prunes usage and rejections, off the request path.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import models, transaction
from django.db.models import CheckConstraint, F, Index, Q, QuerySet, UniqueConstraint
from django.utils import timezone

from accounts.quota.limits import to_datetime, to_microseconds
from petstore.observability.request_ids import VALID_REQUEST_ID

MAX_REJECTIONS_LISTED = 50


class Record(models.Model):
    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self._meta.verbose_name} {self.pk}"


class PublishedModel(Record):
    """A model whose changes are published to the key cache: see Publication.

    `save` opens a transaction, so that the change and its Publication, which a signal writes, are atomic.
    """

    class Meta:
        abstract = True

    def save(self, *args: Any, **options: Any) -> None:
        with transaction.atomic(savepoint=False):
            super().save(*args, **options)


class QuotaCounter(Record):
    """An account's usage in its current windows. accounts/quota and accounts/usage write it.

    Times are microseconds and days are whole days since the epoch, so that the same SQL works on both
    databases.
    """

    account = models.OneToOneField(
        "accounts.Account", models.CASCADE, primary_key=True, related_name="quota"
    )
    minute_ends_at = models.BigIntegerField(db_column="minute_ends")
    minute_used = models.BigIntegerField()
    day = models.BigIntegerField()
    day_used = models.BigIntegerField()
    day_used_in_database = models.BigIntegerField(
        db_column="day_here",
        default=0,
        db_default=0,
        help_text="The part of day_used that Redis did not count.",
    )
    last_request_at = models.BigIntegerField(db_column="seen_at")
    last_request_admitted = models.BooleanField(
        db_column="admitted", help_text="Whether the latest request was admitted."
    )

    class Meta:
        constraints = [
            CheckConstraint(name="quota_counts_from_zero", condition=Q(minute_used__gte=0, day_used__gte=0))
        ]


class KeyStanding(PublishedModel):
    """The rate-limit state of a key: strikes, ban and peeks (D26, D39), in microseconds since the epoch."""

    key = models.OneToOneField(
        "accounts.ApiKey", models.CASCADE, primary_key=True, related_name="rate_limit_state"
    )
    # Only workers of the previous version read retry_after_until, strikes and strikes_expire_at, during an
    # upgrade.
    retry_after_until = models.BigIntegerField(
        db_column="told_until", default=0, help_text="End of the latest Retry-After."
    )
    strikes = models.BigIntegerField(default=0)
    strikes_expire_at = models.BigIntegerField(
        db_column="strikes_end", default=0, help_text="When the strikes expire."
    )
    rejecting_until = models.BigIntegerField(
        db_column="refusing_until",
        default=0,
        db_default=0,
        help_text="End of the window that rejected last, which identifies the strike window.",
    )
    first_rejection_at = models.BigIntegerField(db_column="first_refusal_at", default=0, db_default=0)
    last_strike_at = models.BigIntegerField(default=0, db_default=0)
    window_rejections = models.BigIntegerField(db_column="window_refusals", default=0, db_default=0)
    window_strikes = models.BigIntegerField(default=0, db_default=0)
    banned_at = models.BigIntegerField(default=0)
    banned_until = models.BigIntegerField(default=0, db_index=True)
    ban_level = models.BigIntegerField(
        default=0, help_text="The level of the next ban, unless time without a ban lowers it."
    )
    unban_count = models.BigIntegerField(
        db_column="lifts",
        default=0,
        db_default=0,
        help_text="Bans lifted by staff. An increment invalidates the state in Redis.",
    )
    peeks = models.BigIntegerField(
        db_column="looks",
        default=0,
        db_default=0,
        help_text="GET /v1/account requests in the current minute (D39).",
    )
    peeks_reset_at = models.BigIntegerField(
        db_column="looks_end", default=0, db_default=0, help_text="When the minute of the peeks ends."
    )

    class Meta:
        constraints = [
            CheckConstraint(
                name="standing_counts_from_zero", condition=Q(strikes__gte=0, ban_level__gte=0)
            ),
            CheckConstraint(name="ban_ends_after_it_began", condition=Q(banned_until__gte=F("banned_at"))),
        ]

    def get_ban_end(self, now: datetime) -> datetime | None:
        return to_datetime(self.banned_until) if self.banned_until > to_microseconds(now) else None


class Publication(Record):
    """The current and the published version of a key record. Only accounts/quota/publication.py writes it.

    Every change to a record increments its version in the same transaction. Versions order all reads
    regardless of clocks, and show which changes are not published yet.
    """

    key = models.OneToOneField(
        "accounts.ApiKey",
        models.CASCADE,
        primary_key=True,
        related_name="publication",
        db_constraint=False,  # A constraint would lock the key's row and block its deletion.
    )
    version = models.BigIntegerField()
    published_version = models.BigIntegerField(
        db_column="told", help_text="The version published to Redis."
    )

    class Meta:
        indexes = [
            Index(
                fields=["key"], name="publication_untold", condition=Q(published_version__lt=F("version"))
            )
        ]


class DailyUsage(Record):
    """Requests per key and UTC day. The write-behind adds to it (accounts/usage)."""

    key = models.ForeignKey("accounts.ApiKey", models.CASCADE, related_name="usage")
    day = models.DateField()
    admitted = models.BigIntegerField(db_column="requests", default=0, help_text="Admitted requests.")
    rejected = models.BigIntegerField(
        db_column="refusals", default=0, help_text="Requests rejected with 429."
    )

    class Meta:
        verbose_name_plural = "daily usage"
        indexes = [Index(fields=["day"], name="usage_by_day")]
        constraints = [
            UniqueConstraint(name="one_usage_for_each_key_and_day", fields=["key", "day"]),
            CheckConstraint(name="usage_counts_from_zero", condition=Q(admitted__gte=0, rejected__gte=0)),
        ]


class IdempotencyRecord(Record):
    """The first response to a request with an idempotency key (D31), or a submission of IssueKeyForm."""

    account = models.ForeignKey("accounts.Account", models.CASCADE, related_name="+", db_index=False)
    idempotency_key = models.CharField(db_column="key", max_length=255)
    fingerprint = models.CharField(max_length=64, help_text="The digest of method, path and body.")
    status = models.PositiveSmallIntegerField(null=True)
    location = models.CharField(max_length=1024, blank=True)
    body = models.BinaryField(default=bytes)
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        constraints = [
            UniqueConstraint(
                name="one_answer_for_an_idempotency_key", fields=["account", "idempotency_key"]
            )
        ]


class RejectionReason(models.TextChoices):
    MINUTE = "rate_limit_exceeded", "Minute limit"
    DAY = "daily_quota_exceeded", "Daily quota"
    BAN = "api_key_banned", "Ban"
    REVOKED = "revoked", "Revoked key"
    EXPIRED = "expired", "Expired key"
    NETWORK_NOT_ALLOWED = "elsewhere", "Address not allowed"
    SUSPENDED = "suspended", "Suspended account"
    SCOPE = "insufficient_scope", "Missing scope"


class RejectionQuerySet(QuerySet["Refusal"]):
    def newest(self, condition: Q) -> RejectionQuerySet:
        """Select the newest matching rejections, at most MAX_REJECTIONS_LISTED."""
        rejections = self.filter(condition).order_by("-id").select_related("account__plan", "key")
        return rejections[:MAX_REJECTIONS_LISTED]

    def for_request(self, request_id: str) -> RejectionQuerySet:
        """Select the newest rejections with this X-Request-Id. Clients may reuse an ID."""
        is_valid = VALID_REQUEST_ID.fullmatch(request_id.strip())
        return self.newest(Q(request_id=request_id.strip())) if is_valid else self.none()


class Refusal(Record):
    """A rejected request (401, 403 or 429) that presented the correct secret of a key.

    If the quota rejected the request (D24), both windows are recorded as they were at that time.
    """

    Reason = RejectionReason

    request_id = models.CharField(max_length=128)
    rejected_at = models.DateTimeField(db_column="at", db_index=True)
    account = models.ForeignKey(
        "accounts.Account", models.CASCADE, related_name="rejections", db_index=False
    )
    key = models.ForeignKey("accounts.ApiKey", models.CASCADE, related_name="rejections", db_index=False)
    reason = models.CharField(db_column="rule", max_length=20, choices=RejectionReason)
    method = models.CharField(max_length=8)
    route = models.CharField(max_length=100)
    address = models.GenericIPAddressField(null=True, help_text="The client's address.")
    scope = models.CharField(max_length=20, default="", db_default="", help_text="The missing scope.")
    minute_limit = models.BigIntegerField(null=True)
    minute_used = models.BigIntegerField(null=True)
    minute_ends_at = models.DateTimeField(null=True)
    day_limit = models.BigIntegerField(null=True)
    day_used = models.BigIntegerField(null=True)
    day_ends_at = models.DateTimeField(null=True)
    ban_ends_at = models.DateTimeField(null=True)

    objects = RejectionQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            Index(fields=["request_id", "-id"], name="refusal_by_request"),
            Index(fields=["account", "-id"], name="refusal_by_account"),
            Index(fields=["key", "-id"], name="refusal_by_key"),
        ]
        constraints = [
            CheckConstraint(
                name="refusal_for_a_known_rule", condition=Q(reason__in=RejectionReason.values)
            ),
            CheckConstraint(
                name="refusal_by_ban_has_its_end",
                condition=~Q(reason="api_key_banned") | Q(ban_ends_at__isnull=False),
            ),
        ]


class DeprecatedUse(Record):
    """Calls to a deprecated operation, per account and UTC day."""

    account = models.ForeignKey(
        "accounts.Account", models.CASCADE, related_name="deprecated_calls", db_index=False
    )
    operation = models.CharField(max_length=50, help_text="The operation ID in the OpenAPI document.")
    day = models.DateField(db_index=True)
    admitted = models.BigIntegerField(db_column="requests", help_text="Admitted requests.")
    last_call_at = models.DateTimeField()

    class Meta:
        constraints = [
            UniqueConstraint(
                name="one_use_for_each_account_operation_and_day", fields=["account", "operation", "day"]
            )
        ]


class MinuteLoad(Record):
    """Requests per account and UTC minute, until minute_counts.py rolls them up."""

    account = models.ForeignKey("accounts.Account", models.CASCADE, related_name="+", db_index=False)
    minute = models.BigIntegerField(help_text="Minutes since the epoch.")
    requests = models.BigIntegerField(help_text="Requests that were admitted, or rejected by the quota.")
    written_at = models.BigIntegerField(help_text="The latest write, in microseconds since the epoch.")

    class Meta:
        constraints = [
            UniqueConstraint(name="one_load_for_each_account_and_minute", fields=["account", "minute"])
        ]


class AccountDayLoad(Record):
    """A histogram of an account's requests per minute over a UTC day."""

    account = models.ForeignKey(
        "accounts.Account", models.CASCADE, related_name="minute_histograms", db_index=False
    )
    day = models.DateField(db_index=True)
    minutes = models.JSONField(
        default=dict,
        help_text='{"requests in a minute": number of such minutes}, without idle minutes.',
    )

    class Meta:
        constraints = [
            UniqueConstraint(name="one_load_for_each_account_and_day", fields=["account", "day"])
        ]
