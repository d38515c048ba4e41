"""Quota counters, rate-limit state, publications, usage and the rejection log.

accounts/usage writes and prunes usage and rejections, off the request path.
"""

from __future__ import annotations

from typing import Any

from django.db import models, transaction
from django.db.models import CheckConstraint, F, Index, Q, QuerySet, UniqueConstraint
from django.utils import timezone

from petstore.observability.request_ids import VALID_REQUEST_ID

MAX_REJECTIONS_LISTED = 50


class Record(models.Model):
    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self._meta.verbose_name} {self.pk}"


class Published(Record):
    """A model whose changes are published to the key cache: see Publication.

    `save` opens a transaction, so that the change and its Publication, which a signal writes, are atomic.
    """

    class Meta:
        abstract = True

    def save(self, *args: Any, **options: Any) -> None:
        with transaction.atomic(savepoint=False):
            super().save(*args, **options)


class QuotaCounter(Record):
    """An account's usage in its current windows. Only accounts/quota and accounts/usage write it.

    Times are microseconds and days are whole days since the epoch, so that the same SQL works on both
    databases.
    """

    account = models.OneToOneField(
        "accounts.Account", models.CASCADE, primary_key=True, related_name="quota"
    )
    minute_ends = models.BigIntegerField()
    minute_used = models.BigIntegerField()
    day = models.BigIntegerField()
    day_used = models.BigIntegerField()
    day_here = models.BigIntegerField(
        default=0, db_default=0, help_text="The part of day_used that Redis did not count."
    )
    seen_at = models.BigIntegerField()
    admitted = models.BooleanField(help_text="Whether the latest request was admitted.")

    class Meta:
        constraints = [
            CheckConstraint(name="quota_counts_from_zero", condition=Q(minute_used__gte=0, day_used__gte=0))
        ]


class KeyStanding(Published):
    """The rate-limit state of a key: strikes and ban (D26), in microseconds since the epoch."""

    key = models.OneToOneField("accounts.ApiKey", models.CASCADE, primary_key=True, related_name="standing")
    # Only workers of the previous version use told_until, strikes and strikes_end, during an upgrade.
    told_until = models.BigIntegerField(default=0, help_text="End of the latest Retry-After.")
    strikes = models.BigIntegerField(default=0)
    strikes_end = models.BigIntegerField(default=0, help_text="When the strikes expire.")
    refusing_until = models.BigIntegerField(
        default=0,
        db_default=0,
        help_text="End of the latest window with a rejection. The next four refer to it.",
    )
    first_refusal_at = models.BigIntegerField(default=0, db_default=0)
    last_strike_at = models.BigIntegerField(default=0, db_default=0)
    window_refusals = models.BigIntegerField(default=0, db_default=0)
    window_strikes = models.BigIntegerField(default=0, db_default=0)
    banned_at = models.BigIntegerField(default=0)
    banned_until = models.BigIntegerField(default=0, db_index=True)
    ban_level = models.BigIntegerField(default=0, help_text="Determines the length of the next ban.")
    lifts = models.BigIntegerField(
        default=0, db_default=0, help_text="Bans lifted by staff; each invalidates the state in Redis."
    )
    looks = models.BigIntegerField(
        default=0, db_default=0, help_text="Requests for /account in a minute (D39)."
    )
    looks_end = models.BigIntegerField(default=0, db_default=0, help_text="When that minute ends.")

    class Meta:
        constraints = [
            CheckConstraint(
                name="standing_counts_from_zero", condition=Q(strikes__gte=0, ban_level__gte=0)
            ),
            CheckConstraint(name="ban_ends_after_it_began", condition=Q(banned_until__gte=F("banned_at"))),
        ]


class Publication(Record):
    """The current and the published version of a key record. Only accounts/quota/publication.py writes it.

    Each change to a record increments its version in the same transaction. Versions order all reads
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
    told = models.BigIntegerField(help_text="The version published to Redis.")

    class Meta:
        indexes = [Index(fields=["key"], name="publication_untold", condition=Q(told__lt=F("version")))]


class DailyUsage(Record):
    """Requests per key and UTC day, written by write-behind."""

    key = models.ForeignKey("accounts.ApiKey", models.CASCADE, related_name="usage")
    day = models.DateField()
    requests = models.BigIntegerField(default=0, help_text="Admitted requests.")
    refusals = models.BigIntegerField(default=0, help_text="Requests rejected with 429.")

    class Meta:
        verbose_name_plural = "daily usage"
        indexes = [Index(fields=["day"], name="usage_by_day")]
        constraints = [
            UniqueConstraint(name="one_usage_for_each_key_and_day", fields=["key", "day"]),
            CheckConstraint(name="usage_counts_from_zero", condition=Q(requests__gte=0, refusals__gte=0)),
        ]


class IdempotencyRecord(Record):
    """The first response to a request with an idempotency key (D31), stored with the request's writes."""

    account = models.ForeignKey("accounts.Account", models.CASCADE, related_name="+", db_index=False)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64, help_text="The digest of method, path and body.")
    status = models.PositiveSmallIntegerField(null=True)
    location = models.CharField(max_length=1024, blank=True)
    body = models.BinaryField(default=bytes)
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        constraints = [
            UniqueConstraint(name="one_answer_for_an_idempotency_key", fields=["account", "key"])
        ]


class RefusalRule(models.TextChoices):
    MINUTE = "rate_limit_exceeded", "Minute limit"
    DAY = "daily_quota_exceeded", "Daily quota"
    BAN = "api_key_banned", "Ban"
    REVOKED = "revoked", "Revoked key"
    EXPIRED = "expired", "Expired key"
    ELSEWHERE = "elsewhere", "Address not allowed"
    SUSPENDED = "suspended", "Suspended account"
    SCOPE = "insufficient_scope", "Missing scope"


class RefusalQuerySet(QuerySet["Refusal"]):
    def newest(self, condition: Q) -> RefusalQuerySet:
        """Select the newest matching rejections, at most MAX_REJECTIONS_LISTED."""
        rejections = self.filter(condition).order_by("-id").select_related("account__plan", "key")
        return rejections[:MAX_REJECTIONS_LISTED]

    def for_request(self, request_id: str) -> RefusalQuerySet:
        """Select the newest rejections with this X-Request-Id. Clients may reuse an ID."""
        is_valid = VALID_REQUEST_ID.fullmatch(request_id.strip())
        return self.newest(Q(request_id=request_id.strip())) if is_valid else self.none()


class Refusal(Record):
    """A rejected request (401, 403 or 429) that presented the correct secret of a key.

    If the quota rejected the request (D24), both windows are recorded as they were at that time.
    """

    Rule = RefusalRule

    request_id = models.CharField(max_length=128)
    at = models.DateTimeField(db_index=True)
    account = models.ForeignKey("accounts.Account", models.CASCADE, related_name="refusals", db_index=False)
    key = models.ForeignKey("accounts.ApiKey", models.CASCADE, related_name="refusals", db_index=False)
    rule = models.CharField(max_length=20, choices=RefusalRule)
    method = models.CharField(max_length=8)
    route = models.CharField(max_length=100)
    address = models.GenericIPAddressField(null=True, help_text="The client's address.")
    scope = models.CharField(max_length=20, default="", db_default="", help_text="The missing scope.")
    minute_limit = models.BigIntegerField(null=True, help_text="Requests.")
    minute_used = models.BigIntegerField(null=True, help_text="Requests.")
    minute_ends_at = models.DateTimeField(null=True)
    day_limit = models.BigIntegerField(null=True, help_text="Requests.")
    day_used = models.BigIntegerField(null=True, help_text="Requests.")
    day_ends_at = models.DateTimeField(null=True)
    ban_ends_at = models.DateTimeField(null=True)

    objects = RefusalQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            Index(fields=["request_id", "-id"], name="refusal_by_request"),
            Index(fields=["account", "-id"], name="refusal_by_account"),
            Index(fields=["key", "-id"], name="refusal_by_key"),
        ]
        constraints = [
            CheckConstraint(name="refusal_for_a_known_rule", condition=Q(rule__in=RefusalRule.values)),
            CheckConstraint(
                name="refusal_by_ban_has_its_end",
                condition=~Q(rule="api_key_banned") | Q(ban_ends_at__isnull=False),
            ),
        ]


class DeprecatedUse(Record):
    """Calls to a deprecated operation, per account and UTC day."""

    account = models.ForeignKey(
        "accounts.Account", models.CASCADE, related_name="deprecated_uses", db_index=False
    )
    operation = models.CharField(max_length=50, help_text="The operation ID in the OpenAPI document.")
    day = models.DateField(db_index=True)
    requests = models.BigIntegerField(help_text="Admitted requests.")
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
        "accounts.Account", models.CASCADE, related_name="day_loads", db_index=False
    )
    day = models.DateField(db_index=True)
    minutes = models.JSONField(
        default=dict, help_text='{"requests in a minute": number of such minutes}, without idle minutes.'
    )

    class Meta:
        constraints = [
            UniqueConstraint(name="one_load_for_each_account_and_day", fields=["account", "day"])
        ]
