"""What staff look up later: refusals, calls of deprecated operations, how many requests came in a minute.

Written behind by accounts/usage, and kept for some time only.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q, QuerySet

from petstore.observability.request_ids import WELL_FORMED

EXPLAINED_AT_MOST = 50


class RefusalQuerySet(QuerySet["Refusal"]):
    def for_request(self, request_id: str) -> RefusalQuerySet:
        """Return the refusals of this X-Request-Id, the newest first, at most 50: a client may reuse an id.

        Any text may be asked for; what can't be a request id finds nothing.
        """
        if not WELL_FORMED.fullmatch(request_id.strip()):
            return self.none()
        found = self.filter(request_id=request_id.strip()).order_by("-id")
        return found.select_related("account__plan", "key")[:EXPLAINED_AT_MOST]


class Refusal(models.Model):
    """A request with a valid key that was answered with 429, and both windows at that moment."""

    class Rule(models.TextChoices):
        """What refused: the error code of the answer (D24)."""

        MINUTE = "rate_limit_exceeded", "Minute limit"
        DAY = "daily_quota_exceeded", "Daily quota"
        BAN = "api_key_banned", "Ban"

    request_id = models.CharField(max_length=128)
    at = models.DateTimeField(db_index=True)
    account = models.ForeignKey(
        "accounts.Account", on_delete=models.CASCADE, related_name="refusals", db_index=False
    )
    key = models.ForeignKey("accounts.ApiKey", on_delete=models.CASCADE, related_name="refusals")
    rule = models.CharField(max_length=20, choices=Rule)
    method = models.CharField(max_length=8)
    route = models.CharField(max_length=100)
    minute_limit = models.BigIntegerField(help_text="Requests.")
    minute_used = models.BigIntegerField(help_text="Requests.")
    minute_ends_at = models.DateTimeField()
    day_limit = models.BigIntegerField(help_text="Requests.")
    day_used = models.BigIntegerField(help_text="Requests.")
    day_ends_at = models.DateTimeField()
    ban_ends_at = models.DateTimeField(null=True)

    objects = RefusalQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["request_id", "-id"], name="refusal_by_request"),
            models.Index(fields=["account", "-id"], name="refusal_by_account"),
        ]
        constraints = [
            models.CheckConstraint(
                name="refusal_rule_is_known",
                condition=Q(rule__in=["rate_limit_exceeded", "daily_quota_exceeded", "api_key_banned"]),
            ),
            models.CheckConstraint(
                name="refusal_by_ban_has_its_end",
                condition=~Q(rule="api_key_banned") | Q(ban_ends_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rule} of request {self.request_id}"


class DeprecatedUse(models.Model):
    """How often an account called a deprecated operation on one UTC day."""

    account = models.ForeignKey(
        "accounts.Account", on_delete=models.CASCADE, related_name="deprecated_uses", db_index=False
    )
    operation = models.CharField(max_length=50, help_text="Its name in the OpenAPI document.")
    day = models.DateField(db_index=True)
    requests = models.BigIntegerField(help_text="Those that were admitted.")
    last_call_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="one_use_for_each_account_operation_and_day", fields=["account", "operation", "day"]
            )
        ]

    def __str__(self) -> str:
        return f"{self.operation} by account {self.account_id} on {self.day}"


class MinuteLoad(models.Model):
    """How many requests an account sent in one UTC minute, until that is rolled up: see loads.py."""

    account = models.ForeignKey(
        "accounts.Account", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    minute = models.BigIntegerField(help_text="Whole minutes since the epoch.")
    requests = models.BigIntegerField(help_text="Admitted, or refused for the quota.")
    written_at = models.BigIntegerField(help_text="The last write; microseconds since the epoch.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="one_load_for_each_account_and_minute", fields=["account", "minute"]
            )
        ]

    def __str__(self) -> str:
        return f"load of account {self.account_id} in minute {self.minute}"


class AccountDayLoad(models.Model):
    """In how many minutes of a UTC day an account sent how many requests."""

    account = models.ForeignKey(
        "accounts.Account", on_delete=models.CASCADE, related_name="day_loads", db_index=False
    )
    day = models.DateField(db_index=True)
    minutes = models.JSONField(
        default=dict, help_text='{"requests in one minute": number of such minutes}; none with 0.'
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(name="one_load_for_each_account_and_day", fields=["account", "day"])
        ]

    def __str__(self) -> str:
        return f"load of account {self.account_id} on {self.day}"
