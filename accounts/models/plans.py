"""Plans and accounts, with their limits."""

from collections.abc import Collection
from datetime import date, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, transaction
from django.db.models import CheckConstraint, F, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from accounts.actions import Action
from accounts.keys.key_format import ACCOUNT_ID_LENGTH, new_account_id
from accounts.models.events import EventType, OutboxEvent
from accounts.models.records import Record
from accounts.quota.limits import Limits
from petstore import audit
from petstore.audit import Actor
from petstore.db.names import UniquelyNamed

EPOCH = date(1970, 1, 1)
MAX_REQUEST_LIMIT = 10**12  # A hundred times this still fits into 64 bits.
LIMIT_RANGE = [MinValueValidator(1), MaxValueValidator(MAX_REQUEST_LIMIT)]
# Limits in queries of models with an account: those of the account, or else of its plan.
PER_MINUTE = Coalesce("account__per_minute", "account__plan__per_minute")
PER_DAY = Coalesce("account__per_day", "account__plan__per_day")
LIMIT_HELP = "Enterprise only: the limit agreed with this customer."


class PlanCode(models.TextChoices):
    FREE = "free", "Free"
    PRO = "pro", "Pro"
    BUSINESS = "business", "Business"
    ENTERPRISE = "enterprise", "Enterprise"


def has_limits_only_if(condition: Q) -> Q:
    """Match rows that have both limits if the condition holds, and none otherwise."""
    # The checks for null are necessary, since a CHECK that evaluates to NULL passes.
    both = Q(per_minute__isnull=False, per_minute__gte=1, per_day__isnull=False, per_day__gte=1)
    neither = Q(per_minute__isnull=True, per_day__isnull=True)
    return (condition & both) | (~condition & neither)


class Plan(Record):
    """A named set of limits. Enterprise has none, since its limits are set per account."""

    code = models.CharField(primary_key=True, max_length=20, choices=PlanCode)
    per_minute = models.BigIntegerField(
        "requests per minute", null=True, blank=True, validators=LIMIT_RANGE
    )
    per_day = models.BigIntegerField("requests per day", null=True, blank=True, validators=LIMIT_RANGE)

    class Meta:
        ordering = [F("per_day").asc(nulls_last=True)]
        constraints = [
            CheckConstraint(name="plan_code_valid", condition=Q(code__in=PlanCode.values)),
            CheckConstraint(
                name="plan_limits_unless_enterprise",
                condition=has_limits_only_if(~Q(code=PlanCode.ENTERPRISE)),
            ),
        ]

    def __str__(self) -> str:
        return self.get_code_display()

    @property
    def limits(self) -> Limits | None:
        """None for Enterprise."""
        return Limits(self.per_minute, self.per_day) if self.per_minute and self.per_day else None


class Account(UniquelyNamed, Record):
    """A customer. Its keys share one quota."""

    public_id = models.CharField(
        "public ID", max_length=ACCOUNT_ID_LENGTH, unique=True, editable=False, default=new_account_id
    )
    plan = models.ForeignKey(Plan, models.PROTECT)
    per_minute = models.BigIntegerField(
        "requests per minute", null=True, blank=True, validators=LIMIT_RANGE, help_text=LIMIT_HELP
    )
    per_day = models.BigIntegerField(
        "requests per day", null=True, blank=True, validators=LIMIT_RANGE, help_text=LIMIT_HELP
    )
    created_at = models.DateTimeField(auto_now_add=True)
    contact_email = models.EmailField(
        blank=True,
        default="",
        db_default="",
        help_text="Where to reach the customer. Not available through the API.",
    )
    notes = models.TextField(
        blank=True, default="", db_default="", max_length=5000, help_text="Visible to staff only."
    )
    suspended_at = models.DateTimeField(null=True, blank=True, editable=False)
    suspended_reason = models.CharField(
        max_length=255, blank=True, default="", db_default="", editable=False
    )

    requires_second_factor = models.BooleanField(
        default=False, db_default=False, help_text="Whether members need an authenticator app or a passkey."
    )

    class Meta:
        ordering = ["name"]
        constraints = [
            CheckConstraint(name="account_name_not_empty", condition=~Q(name="")),
            CheckConstraint(
                name="account_suspension_has_reason",
                condition=Q(suspended_at__isnull=True, suspended_reason="")
                | (Q(suspended_at__isnull=False) & ~Q(suspended_reason="")),
            ),
            CheckConstraint(
                name="account_limits_only_if_enterprise",
                condition=has_limits_only_if(Q(plan=PlanCode.ENTERPRISE)),
            ),
        ]

    def clean(self) -> None:
        is_enterprise = self.plan_id == PlanCode.ENTERPRISE
        if is_enterprise and (self.per_minute is None or self.per_day is None):
            raise ValidationError("An Enterprise account needs both limits, per minute and per day.")
        if not is_enterprise and (self.per_minute is not None or self.per_day is not None):
            raise ValidationError("Only an Enterprise account has its own limits. Leave both empty.")

    def validate_constraints(self, exclude: Collection[str] | None = None) -> None:
        """Skip the limits, for which `clean` has better messages."""
        super().validate_constraints({*(exclude or ()), "per_minute", "per_day"})

    def save(self, *args: Any, **options: Any) -> None:
        """Save, and add an event if the plan or the limits change."""
        with transaction.atomic(savepoint=False):
            limits = Account.objects.values_list("plan_id", "per_minute", "per_day")
            before = limits.select_for_update().filter(pk=self.pk).first()
            super().save(*args, **options)
            if before is not None and before != limits.get(pk=self.pk):
                data = {"id": self.public_id, "name": self.name, "plan": self.plan_id}
                account = data | {"createdAt": self.created_at}
                OutboxEvent.build(EventType.PLAN_CHANGED, {"account": account}, self.pk).save()

    def lock(self, *, reject_suspended: bool = False) -> "Account":
        """Return the current row, locked until the end of the transaction.

        Raises ValidationError if it was deleted, or with `reject_suspended`, if it is suspended (D46).
        """
        # NO KEY does not block references to the account, such as usage.
        account = Account.objects.select_for_update(no_key=True).filter(pk=self.pk).first()
        if account is None:
            raise ValidationError(f"{self} has been deleted.")
        if reject_suspended and account.suspended_at:
            raise ValidationError(f"This is not possible while {account} is suspended.")
        return account

    def assign(self, plan: PlanCode, per_minute: int | None = None, per_day: int | None = None) -> None:
        """Set the plan without an audit entry. Takes effect with the next request (D27).

        Raises ValidationError unless Enterprise has both limits and other plans have none.
        """
        self.plan_id, self.per_minute, self.per_day = plan, per_minute, per_day
        self.full_clean()
        # Saving other fields would overwrite concurrent changes, such as a suspension.
        self.save(update_fields=None if self._state.adding else ["plan", "per_minute", "per_day"])

    def change_plan(
        self, plan: PlanCode, per_minute: int | None, per_day: int | None, *, reason: str, by: Actor
    ) -> None:
        """Change the plan like `assign`, with an audit entry. Also raises if nothing changes."""
        with transaction.atomic():
            account = self.lock()
            if (account.plan_id, account.per_minute, account.per_day) == (plan, per_minute, per_day):
                raise ValidationError(f"{self} already has this plan and these limits.")
            with audit.record_changes(by, account, audit.Action.CHANGED, reason=reason):
                account.assign(plan, per_minute, per_day)
        self.refresh_from_db()

    def suspend(self, *, reason: str, by: Actor) -> None:
        """Reject all keys from the next request on (D45). Raises ValidationError like `lift_suspension`."""
        self._suspend_or_lift(timezone.now(), Action.SUSPENDED, reason, by)

    def lift_suspension(self, *, reason: str, by: Actor) -> None:
        """Accept the keys again. Raises ValidationError without a reason or if nothing changes."""
        self._suspend_or_lift(None, Action.SUSPENSION_LIFTED, reason, by)

    def _suspend_or_lift(self, at: datetime | None, action: Action, reason: str, by: Actor) -> None:
        if not reason.strip():
            raise ValidationError(
                f"Say why the {'account is suspended' if at else 'suspension is lifted'}."
            )
        with transaction.atomic():
            account = self.lock()
            if (account.suspended_at is None) == (at is None):
                raise ValidationError(f"{self} is {'already suspended' if at else 'not suspended'}.")
            with audit.record_changes(by, account, action, reason=reason):
                account.suspended_at, account.suspended_reason = at, reason.strip()[:255] if at else ""
                account.save(update_fields=["suspended_at", "suspended_reason"])
            # Webhooks don't fail while nothing is sent (D51). Delivery locks them in the same order.
            locked = account.webhooks.select_for_update().order_by("pk").values_list("pk", flat=True)
            webhooks = account.webhooks.filter(pk__in=list(locked))
            webhooks.update(attempts=0, first_attempt_at=None, failing_since=None)
        self.refresh_from_db()

    def require_second_factor(self, *, required: bool, by: Actor) -> None:
        """Let only members with a second factor open the pages of the account, or all of them.

        A suspended account can't lift the requirement. Raises ValidationError.
        """
        with transaction.atomic():
            account = self.lock(reject_suspended=not required)
            if account.requires_second_factor != required:
                with audit.record_changes(by, account, audit.Action.CHANGED):
                    account.requires_second_factor = required
                    account.save(update_fields=["requires_second_factor"])

    def get_request_count(self, day: date) -> int:
        """Count the requests on a day (UTC), which may lag by seconds.

        Only the latest active day is stored; others give 0.
        """
        return sum(usage.day_used for usage in self.usage.all() if usage.day == (day - EPOCH).days)

    @property
    def limits(self) -> Limits:
        source = self if self.plan_id == PlanCode.ENTERPRISE else self.plan
        assert source.per_minute is not None
        assert source.per_day is not None
        return Limits(source.per_minute, source.per_day)
