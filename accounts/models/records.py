"""Quota usage, rate-limit state, statistics and the rejection log.

accounts/usage writes and prunes usage and rejections, off the request path.
"""

from __future__ import annotations

from datetime import datetime
from typing import Self, TypeVar

from django.db import models, transaction
from django.db.models import CheckConstraint, F, Index, Q, QuerySet, UniqueConstraint
from django.utils import timezone

from accounts.quota.limits import to_datetime, to_microseconds
from petstore.db.durability import commit_asynchronously
from petstore.observability.request_ids import VALID_REQUEST_ID

MAX_REJECTIONS_LISTED = 50


class Record(models.Model):
    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self._meta.verbose_name} {self.pk}"


class QuotaUsage(Record):
    """The usage of an account in its current windows: see accounts/quota/sql.py.

    Times are microseconds and days are whole days since the epoch, so that the same SQL works on both
    databases.

    While an old snapshot is open (a dump, a forgotten transaction), PostgreSQL keeps all previous versions
    of a row, and each update has to skip them. Therefore a row is replaced after MAX_UPDATES. The number
    of the row in use is in UsageGeneration, so no request visits the versions of earlier rows.
    """

    MAX_UPDATES = 1_000

    pk = models.CompositePrimaryKey("account_id", "generation")
    # A constraint would lock the account's row when a usage row is inserted.
    account = models.ForeignKey(
        "accounts.Account", models.CASCADE, related_name="usage", db_constraint=False, db_index=False
    )
    generation = models.BigIntegerField(default=0)
    updates = models.IntegerField(default=0, help_text="Updates of this row.")
    minute_ends_at = models.BigIntegerField(default=0)
    minute_used = models.BigIntegerField(default=0)
    day = models.BigIntegerField(default=0)
    day_used = models.BigIntegerField(default=0)
    warned_threshold = models.SmallIntegerField(
        default=0, help_text="The highest percentage of the day's quota whose warning is stored (D41)."
    )
    last_write_at = models.BigIntegerField(default=0, help_text="The latest request that may write.")

    @classmethod
    def current(cls, account_id: int) -> QuerySet[QuotaUsage]:
        """Select the row in use. There is none before the first request."""
        generation = UsageGeneration.objects.filter(account_id=account_id).values("generation")
        return cls.objects.filter(account_id=account_id, generation=generation[:1])

    @classmethod
    def renew(cls, account_id: int) -> None:
        """Create the row unless it exists, or replace it if it has been updated MAX_UPDATES times."""
        with transaction.atomic():
            commit_asynchronously()  # Requests of the account wait for the locks.
            new = UsageGeneration(account_id=account_id)
            UsageGeneration.objects.bulk_create([new], ignore_conflicts=True)
            current = UsageGeneration.objects.select_for_update().get(account_id=account_id)
            if replace_row(cls, current.generation, account_id=account_id):
                current.generation += 1
                current.save()


class UsageGeneration(Record):
    """The number of the account's QuotaUsage row that is in use."""

    account = models.OneToOneField(
        "accounts.Account", models.CASCADE, primary_key=True, related_name="+", db_constraint=False
    )
    generation = models.BigIntegerField(default=0)


class RateLimitState(Record):
    """The bans and peeks of a key (D26, D39), in microseconds since the epoch.

    Strikes are counted in StrikeCounter, so that this row, which each request reads, rarely changes.
    """

    key = models.OneToOneField(
        "accounts.ApiKey", models.CASCADE, primary_key=True, related_name="rate_limit_state"
    )
    banned_at = models.BigIntegerField(default=0)
    banned_until = models.BigIntegerField(default=0, db_index=True)
    ban_level = models.BigIntegerField(
        default=0, help_text="The level of the next ban, unless time without a ban lowers it."
    )
    strike_generation = models.BigIntegerField(
        default=0, db_default=0, help_text="The number of the StrikeCounter row that is in use."
    )
    peeks = models.BigIntegerField(
        default=0,
        db_default=0,
        help_text="GET /v1/account requests in the current minute (D39).",
    )
    peeks_reset_at = models.BigIntegerField(
        default=0, db_default=0, help_text="When the minute of the peeks ends."
    )

    class Meta:
        constraints = [
            CheckConstraint(name="ban_level_not_negative", condition=Q(ban_level__gte=0)),
            CheckConstraint(name="ban_end_not_before_start", condition=Q(banned_until__gte=F("banned_at"))),
        ]

    @classmethod
    def lock(cls, key_id: int) -> Self:
        """Create the row unless it exists, and lock it until the end of the transaction."""
        cls.objects.bulk_create([cls(key_id=key_id)], ignore_conflicts=True)
        return cls.objects.select_for_update().get(key_id=key_id)

    def get_ban_end(self, now: datetime) -> datetime | None:
        return to_datetime(self.banned_until) if self.banned_until > to_microseconds(now) else None


class StrikeCounter(Record):
    """The rejections and strikes of a key in its current strike window (D26), in microseconds.

    Replaced after MAX_UPDATES, like QuotaUsage. RateLimitState has the number of the row in use.
    """

    MAX_UPDATES = QuotaUsage.MAX_UPDATES

    pk = models.CompositePrimaryKey("key_id", "generation")
    key = models.ForeignKey(
        "accounts.ApiKey", models.CASCADE, related_name="+", db_constraint=False, db_index=False
    )
    generation = models.BigIntegerField(default=0)
    updates = models.IntegerField(default=0)
    rejecting_until = models.BigIntegerField(
        default=0, help_text="End of the window that rejected last, which identifies the strike window."
    )
    first_rejection_at = models.BigIntegerField(default=0)
    last_strike_at = models.BigIntegerField(default=0)
    rejections = models.BigIntegerField(default=0)
    strikes = models.BigIntegerField(default=0)

    @classmethod
    def renew(cls, key_id: int) -> None:
        """Create the row unless it exists, or replace it if it has been updated MAX_UPDATES times."""
        with transaction.atomic():
            commit_asynchronously()
            state = RateLimitState.lock(key_id)
            if replace_row(cls, state.strike_generation, key_id=key_id):
                state.strike_generation += 1
                state.save(update_fields=["strike_generation"])


ReplacedRecord = TypeVar("ReplacedRecord", QuotaUsage, StrikeCounter)


def replace_row(model: type[ReplacedRecord], generation: int, **owner: int) -> bool:
    """Create the row of this generation unless it exists; return whether it became one of the next.

    A concurrent request that waits for the row then finds that it is no longer of its generation.
    """
    rows = model.objects.filter(generation=generation, **owner)
    worn = rows.filter(updates__gte=model.MAX_UPDATES)
    if worn.update(generation=F("generation") + 1, updates=0):
        return True
    model.objects.bulk_create([model(generation=generation, **owner)], ignore_conflicts=True)
    return False


class DailyUsage(Record):
    """Requests per key and UTC day. The write-behind adds to it (accounts/usage)."""

    key = models.ForeignKey("accounts.ApiKey", models.CASCADE, related_name="usage")
    day = models.DateField()
    admitted = models.BigIntegerField(default=0, help_text="Admitted requests.")
    rejected = models.BigIntegerField(default=0, help_text="Requests rejected with 429.")

    class Meta:
        verbose_name_plural = "daily usage"
        indexes = [Index(fields=["day"], name="usage_by_day")]
        constraints = [
            UniqueConstraint(name="unique_daily_usage", fields=["key", "day"]),
            CheckConstraint(name="daily_usage_not_negative", condition=Q(admitted__gte=0, rejected__gte=0)),
        ]


class IdempotencyRecord(Record):
    """The first response to a request with an idempotency key (D31), or a submission of IssueKeyForm."""

    account = models.ForeignKey("accounts.Account", models.CASCADE, related_name="+", db_index=False)
    idempotency_key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64, help_text="The digest of method, path and body.")
    status = models.PositiveSmallIntegerField(null=True)
    location = models.CharField(max_length=1024, blank=True)
    body = models.BinaryField(default=bytes)
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        constraints = [
            UniqueConstraint(name="unique_idempotency_key", fields=["account", "idempotency_key"])
        ]


class RejectionReason(models.TextChoices):
    MINUTE = "rate_limit_exceeded", "Minute limit"
    DAY = "daily_quota_exceeded", "Daily quota"
    BAN = "api_key_banned", "Ban"
    REVOKED = "revoked", "Revoked key"
    EXPIRED = "expired", "Expired key"
    NETWORK_NOT_ALLOWED = "network_not_allowed", "Address not allowed"
    SUSPENDED = "suspended", "Suspended account"
    SCOPE = "insufficient_scope", "Missing scope"


class RejectionQuerySet(QuerySet["Rejection"]):
    def newest(self, condition: Q) -> RejectionQuerySet:
        """Select the newest matching rejections, at most MAX_REJECTIONS_LISTED."""
        rejections = self.filter(condition).order_by("-id").select_related("account__plan", "key")
        return rejections[:MAX_REJECTIONS_LISTED]

    def for_request(self, request_id: str) -> RejectionQuerySet:
        """Select the newest rejections with this X-Request-Id. Clients may reuse an ID."""
        is_valid = VALID_REQUEST_ID.fullmatch(request_id.strip())
        return self.newest(Q(request_id=request_id.strip())) if is_valid else self.none()


class Rejection(Record):
    """A rejected request (401, 403 or 429) that presented the correct secret of a key.

    If the quota rejected the request (D24), both windows are recorded as they were at that time.
    """

    Reason = RejectionReason

    request_id = models.CharField(max_length=128)
    rejected_at = models.DateTimeField(db_index=True)
    account = models.ForeignKey(
        "accounts.Account", models.CASCADE, related_name="rejections", db_index=False
    )
    key = models.ForeignKey("accounts.ApiKey", models.CASCADE, related_name="rejections", db_index=False)
    reason = models.CharField(max_length=20, choices=RejectionReason)
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
            Index(fields=["request_id", "-id"], name="rejection_by_request"),
            Index(fields=["account", "-id"], name="rejection_by_account"),
            Index(fields=["key", "-id"], name="rejection_by_key"),
        ]
        constraints = [
            CheckConstraint(name="rejection_reason_valid", condition=Q(reason__in=RejectionReason.values)),
            CheckConstraint(
                name="rejection_by_ban_has_end",
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
    admitted = models.BigIntegerField(help_text="Admitted requests.")
    last_call_at = models.DateTimeField()

    class Meta:
        constraints = [
            UniqueConstraint(name="unique_deprecated_use", fields=["account", "operation", "day"])
        ]


class OperationUsage(Record):
    """Requests that counted towards the quota, per account, operation and status, in an hour or a day.

    Every request is in the row of its UTC hour and in that of its UTC day.
    """

    HOUR, DAY = 1, 24

    account = models.ForeignKey(
        "accounts.Account", models.CASCADE, related_name="operation_usage", db_index=False
    )
    hours = models.PositiveSmallIntegerField(help_text="The length of the period: 1 or 24.")
    start = models.BigIntegerField(help_text="The first hour of the period, in hours since the epoch.")
    operation = models.CharField(max_length=60, help_text="Method and route, such as GET /v1/pets.")
    status = models.PositiveSmallIntegerField()
    requests = models.BigIntegerField()

    class Meta:
        indexes = [Index(fields=["hours", "start"], name="operation_usage_by_time")]
        constraints = [
            UniqueConstraint(
                name="one_usage_for_each_operation_and_period",
                fields=["account", "hours", "start", "operation", "status"],
            ),
            CheckConstraint(name="operation_usage_of_hour_or_day", condition=Q(hours__in=(1, 24))),
        ]


class MinuteCount(Record):
    """Requests per account and UTC minute, until minute_counts.py rolls them up."""

    account = models.ForeignKey("accounts.Account", models.CASCADE, related_name="+", db_index=False)
    minute = models.BigIntegerField(help_text="Minutes since the epoch.")
    requests = models.BigIntegerField(help_text="Requests that were admitted, or rejected by the quota.")
    written_at = models.BigIntegerField(help_text="The latest write, in microseconds since the epoch.")

    class Meta:
        constraints = [UniqueConstraint(name="unique_minute_count", fields=["account", "minute"])]


class MinuteHistogram(Record):
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
        constraints = [UniqueConstraint(name="unique_minute_histogram", fields=["account", "day"])]
