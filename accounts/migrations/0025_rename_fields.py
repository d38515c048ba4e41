"""Rename fields and related names. The columns keep their names, so no SQL runs."""

from typing import Any

from django.db import migrations, models
from django.db.models import CASCADE, CheckConstraint, F, ForeignKey, OneToOneField, Q, UniqueConstraint
from django.db.migrations.operations.base import Operation

BigInteger = models.BigIntegerField


def rename(model: str, old: str, new: str, field: Any, **options: Any) -> list[Operation]:
    """Pin the column first, so that renaming the field does not rename the column."""
    return [
        migrations.AlterField(model, old, field(db_column=old, **options)),
        migrations.RenameField(model, old, new),
    ]


# Options that refer to renamed fields. The database refers to the columns, so only the state changes.
REMOVE_OPTIONS = [
    migrations.RemoveConstraint("dailyusage", "usage_counts_from_zero"),
    migrations.RemoveConstraint("feed", "feed_keeps_what_is_new"),
    migrations.RemoveConstraint("idempotencyrecord", "one_answer_for_an_idempotency_key"),
    migrations.RemoveConstraint("refusal", "refusal_by_ban_has_its_end"),
    migrations.RemoveConstraint("refusal", "refusal_for_a_known_rule"),
    migrations.RemoveConstraint("warned", "one_warning_for_each_window"),
    migrations.RemoveIndex("publication", "publication_untold"),
]
REASONS = [
    ("rate_limit_exceeded", "Minute limit"),
    ("daily_quota_exceeded", "Daily quota"),
    ("api_key_banned", "Ban"),
    ("revoked", "Revoked key"),
    ("expired", "Expired key"),
    ("elsewhere", "Address not allowed"),
    ("suspended", "Suspended account"),
    ("insufficient_scope", "Missing scope"),
]
ADD_OPTIONS = [
    migrations.AddConstraint(
        "dailyusage",
        CheckConstraint(condition=Q(admitted__gte=0, rejected__gte=0), name="usage_counts_from_zero"),
    ),
    migrations.AddConstraint(
        "feed", CheckConstraint(condition=Q(last_pruned_id__lte=F("last_id")), name="feed_keeps_what_is_new")
    ),
    migrations.AddConstraint(
        "idempotencyrecord",
        UniqueConstraint(fields=["account", "idempotency_key"], name="one_answer_for_an_idempotency_key"),
    ),
    migrations.AddConstraint(
        "refusal",
        CheckConstraint(
            condition=~Q(reason="api_key_banned") | Q(ban_ends_at__isnull=False),
            name="refusal_by_ban_has_its_end",
        ),
    ),
    migrations.AddConstraint(
        "refusal",
        CheckConstraint(
            condition=Q(reason__in=[value for value, _ in REASONS]), name="refusal_for_a_known_rule"
        ),
    ),
    migrations.AddConstraint(
        "warned",
        UniqueConstraint(
            fields=["type", "subject_id", "threshold", "occurrence"], name="one_warning_for_each_window"
        ),
    ),
    migrations.AddIndex(
        "publication",
        models.Index(
            fields=["key"], condition=Q(published_version__lt=F("version")), name="publication_untold"
        ),
    ),
]


class Migration(migrations.Migration):
    dependencies = [("accounts", "0024_reword_help_texts")]
    operations = [
        migrations.SeparateDatabaseAndState(state_operations=REMOVE_OPTIONS),
        *rename("dailyusage", "requests", "admitted", BigInteger, default=0, help_text="Admitted requests."),
        *rename(
            "dailyusage", "refusals", "rejected", BigInteger, default=0, help_text="Requests rejected with 429."
        ),
        *rename("deprecateduse", "requests", "admitted", BigInteger, help_text="Admitted requests."),
        *rename(
            "event",
            "numbered_at",
            "sequenced_at",
            BigInteger,
            help_text="Never decreases from one ID to the next.",
        ),
        *rename(
            "feed",
            "numbered_at",
            "last_sequenced_at",
            BigInteger,
            default=0,
            help_text="When the newest event was sequenced.",
        ),
        *rename(
            "feed",
            "cleared_id",
            "last_pruned_id",
            BigInteger,
            default=0,
            help_text="Events up to this ID have been pruned.",
        ),
        *rename(
            "feed",
            "cleared_at",
            "last_pruned_sequenced_at",
            BigInteger,
            default=0,
            help_text="When the newest pruned event was sequenced.",
        ),
        *rename(
            "feed",
            "swept_at",
            "warnings_checked_at",
            BigInteger,
            default=0,
            help_text="When missed warnings were last checked for.",
        ),
        *rename("idempotencyrecord", "key", "idempotency_key", models.CharField, max_length=255),
        *rename(
            "keystanding",
            "told_until",
            "retry_after_until",
            BigInteger,
            default=0,
            help_text="End of the latest Retry-After.",
        ),
        *rename(
            "keystanding",
            "strikes_end",
            "strikes_expire_at",
            BigInteger,
            default=0,
            help_text="When the strikes expire.",
        ),
        *rename(
            "keystanding",
            "refusing_until",
            "rejecting_until",
            BigInteger,
            default=0,
            db_default=0,
            help_text="End of the window that rejected last, which identifies the strike window.",
        ),
        *rename("keystanding", "first_refusal_at", "first_rejection_at", BigInteger, default=0, db_default=0),
        *rename("keystanding", "window_refusals", "window_rejections", BigInteger, default=0, db_default=0),
        *rename(
            "keystanding",
            "lifts",
            "unban_count",
            BigInteger,
            default=0,
            db_default=0,
            help_text="Bans lifted by staff. An increment invalidates the state in Redis.",
        ),
        *rename(
            "keystanding",
            "looks",
            "peeks",
            BigInteger,
            default=0,
            db_default=0,
            help_text="GET /v1/account requests in the current minute (D39).",
        ),
        *rename(
            "keystanding",
            "looks_end",
            "peeks_reset_at",
            BigInteger,
            default=0,
            db_default=0,
            help_text="When the minute of the peeks ends.",
        ),
        migrations.AlterField(
            "keystanding",
            "ban_level",
            BigInteger(
                default=0, help_text="The level of the next ban, unless time without a ban lowers it."
            ),
        ),
        migrations.AlterField(
            "keystanding",
            "key",
            OneToOneField(
                "accounts.ApiKey",
                CASCADE,
                primary_key=True,
                related_name="rate_limit_state",
                serialize=False,
            ),
        ),
        *rename(
            "publication", "told", "published_version", BigInteger, help_text="The version published to Redis."
        ),
        *rename("quotacounter", "minute_ends", "minute_ends_at", BigInteger),
        *rename(
            "quotacounter",
            "day_here",
            "day_used_in_database",
            BigInteger,
            default=0,
            db_default=0,
            help_text="The part of day_used that Redis did not count.",
        ),
        *rename("quotacounter", "seen_at", "last_request_at", BigInteger),
        *rename(
            "quotacounter",
            "admitted",
            "last_request_admitted",
            models.BooleanField,
            help_text="Whether the latest request was admitted.",
        ),
        *rename("refusal", "at", "rejected_at", models.DateTimeField, db_index=True),
        *rename("refusal", "rule", "reason", models.CharField, max_length=20, choices=REASONS),
        *rename(
            "warned",
            "of_window",
            "occurrence",
            BigInteger,
            help_text="The day, the key's expiry, or the start of the ban.",
        ),
        *rename("warned", "at", "sent_at", models.DateTimeField, db_index=True),
        *(
            migrations.AlterField("refusal", name, BigInteger(null=True))
            for name in ("minute_limit", "minute_used", "day_limit", "day_used")
        ),
        *(
            migrations.AlterField(
                model, name, ForeignKey(target, CASCADE, related_name=related_name, db_index=False)
            )
            for model, name, target, related_name in (
                ("accountdayload", "account", "accounts.Account", "minute_histograms"),
                ("deprecateduse", "account", "accounts.Account", "deprecated_calls"),
                ("refusal", "account", "accounts.Account", "rejections"),
                ("refusal", "key", "accounts.ApiKey", "rejections"),
            )
        ),
        migrations.SeparateDatabaseAndState(state_operations=ADD_OPTIONS),
    ]
