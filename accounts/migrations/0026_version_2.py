"""The schema of version 2.0: members, webhooks, counters without Redis, and standard names.

Workers of 1.1.0 have to be stopped: see "Upgrading to 2.0" in docs/deploying.md.
"""

from typing import Any

import accounts.keys.key_format
import accounts.models.api_keys
import accounts.models.members
import accounts.models.webhooks
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models
from django.db.models import CASCADE, PROTECT, F, Q
from django.utils.text import camel_case_to_spaces

from petstore.db.operations import RenameConstraints

MODELS = {
    "AccountDayLoad": "MinuteHistogram",
    "EventDraft": "OutboxEvent",
    "KeyStanding": "RateLimitState",
    "MinuteLoad": "MinuteCount",
    "Refusal": "Rejection",
    "Warned": "SentWarning",
}
OBSOLETE_FIELDS = (
    "retry_after_until", "strikes", "strikes_expire_at", "rejecting_until", "first_rejection_at", "last_strike_at",
    "window_rejections", "window_strikes", "unban_count",
)  # fmt: skip
# Fields whose columns have other names.
FIELDS = {
    "dailyusage": ("admitted", "rejected"),
    "deprecateduse": ("admitted",),
    "event": ("sequenced_at",),
    "feed": ("last_sequenced_at", "last_pruned_id", "last_pruned_sequenced_at", "warnings_checked_at"),
    "idempotencyrecord": ("idempotency_key",),
    "ratelimitstate": ("peeks", "peeks_reset_at"),
    "rejection": ("rejected_at",),
    "sentwarning": ("occurrence", "sent_at"),
}
CONSTRAINTS = {
    "account": {
        "account_has_a_name": "account_name_not_empty",
        "account_suspended_with_a_reason": "account_suspension_has_reason",
        "account_has_numbers_if_enterprise": "account_limits_only_if_enterprise",
    },
    "apikey": {
        "key_has_a_mode": "key_mode_valid",
        "key_scopes_are_known": "key_scopes_valid",
        "key_ends_after_it_began": "key_expiry_after_creation",
        "key_revoked_with_a_reason": "key_revocation_has_reason",
    },
    "dailyusage": {"one_usage_for_each_key_and_day": "unique_daily_usage"},
    "deprecateduse": {"one_use_for_each_account_operation_and_day": "unique_deprecated_use"},
    "feed": {
        "feed_is_one_row": "feed_single_row",
        "feed_keeps_what_is_new": "feed_pruned_id_within_bounds",
    },
    "idempotencyrecord": {"one_answer_for_an_idempotency_key": "unique_idempotency_key"},
    "minutecount": {"one_load_for_each_account_and_minute": "unique_minute_count"},
    "minutehistogram": {"one_load_for_each_account_and_day": "unique_minute_histogram"},
    "outboxevent": {"event_is_public_or_of_an_account": "event_account_matches_type"},
    "plan": {
        "plan_is_known": "plan_code_valid",
        "plan_has_numbers_unless_enterprise": "plan_limits_unless_enterprise",
    },
    "ratelimitstate": {"ban_ends_after_it_began": "ban_end_not_before_start"},
    "rejection": {"refusal_by_ban_has_its_end": "rejection_by_ban_has_end"},
    "sentwarning": {"one_warning_for_each_window": "unique_sent_warning"},
}
INDEXES = {
    "apikey": {"key_by_end": "key_by_expiry"},
    "rejection": {
        "refusal_by_request": "rejection_by_request",
        "refusal_by_account": "rejection_by_account",
        "refusal_by_key": "rejection_by_key",
    },
}
REASONS = [
    ("rate_limit_exceeded", "Minute limit"),
    ("daily_quota_exceeded", "Daily quota"),
    ("api_key_banned", "Ban"),
    ("revoked", "Revoked key"),
    ("expired", "Expired key"),
    ("network_not_allowed", "Address not allowed"),
    ("suspended", "Suspended account"),
    ("insufficient_scope", "Missing scope"),
]
ROLES = [("owner", "Account owner"), ("developer", "Account developer"), ("reader", "Account reader")]

# Names that Django generated on PostgreSQL. SQLite has recreated the tables, or has no such names.
GENERATED_NAMES = """
ALTER INDEX accounts_accountdayload_day_08de4735 RENAME TO accounts_minutehistogram_day_f67d7b58;
ALTER INDEX accounts_keystanding_banned_until_e4a016de RENAME TO accounts_ratelimitstate_banned_until_54433262;
ALTER INDEX accounts_refusal_at_eb6323e5 RENAME TO accounts_rejection_rejected_at_8aebdcad;
ALTER INDEX accounts_warned_at_f28a7cc6 RENAME TO accounts_sentwarning_sent_at_88d0a981;
ALTER TABLE accounts_minutehistogram RENAME CONSTRAINT accounts_accountdayl_account_id_8e5c34cb_fk_accounts_
    TO accounts_minutehisto_account_id_046620fa_fk_accounts_;
ALTER TABLE accounts_ratelimitstate RENAME CONSTRAINT accounts_keystanding_key_id_ee6c6645_fk_accounts_apikey_id
    TO accounts_ratelimitstate_key_id_76479da1_fk_accounts_apikey_id;
ALTER TABLE accounts_minutecount RENAME CONSTRAINT accounts_minuteload_account_id_ec121e16_fk_accounts_account_id
    TO accounts_minutecount_account_id_ef7c9171_fk_accounts_account_id;
ALTER TABLE accounts_rejection RENAME CONSTRAINT accounts_refusal_account_id_e47a9ac5_fk_accounts_account_id
    TO accounts_rejection_account_id_ebd7b841_fk_accounts_account_id;
ALTER TABLE accounts_rejection RENAME CONSTRAINT accounts_refusal_key_id_960ee9d9_fk_accounts_apikey_id
    TO accounts_rejection_key_id_7bcb84dc_fk_accounts_apikey_id;
"""
# Most updates of a half-empty page stay on it, and need no new entry in the index (HOT).
FILLFACTOR = """
ALTER TABLE accounts_quotausage SET (fillfactor = 50);
ALTER TABLE accounts_strikecounter SET (fillfactor = 50);
"""
COPY_COUNTS = [
    "INSERT INTO accounts_usagegeneration (account_id, generation) SELECT account_id, 0 FROM accounts_quotacounter",
    """INSERT INTO accounts_quotausage (account_id, generation, updates, minute_ends_at, minute_used, day, day_used,
        warned_threshold, last_write_at)
    SELECT account_id, 0, 0, minute_ends, minute_used, day, day_used, 0, 0 FROM accounts_quotacounter""",
]


class RenameColumn(migrations.AlterField):
    """Gives a column the name of its field."""

    def __init__(self, model_name: str, name: str) -> None:
        super().__init__(model_name, name, models.Field())

    def state_forwards(self, app_label: str, state: Any) -> None:
        self.field = state.models[app_label, self.model_name_lower].get_field(self.name).clone()
        self.field.db_column = None
        super().state_forwards(app_label, state)


def change_postgresql(apps: Any, schema_editor: Any) -> None:
    """Drop the function of a trigger that went with its table, rename what SQLite has recreated, and set fill factors."""
    if schema_editor.connection.vendor != "postgresql":
        return
    schema_editor.execute("DROP FUNCTION IF EXISTS copy_key_event()")
    for model in MODELS.items():
        old, new = (f"accounts_{name.lower()}" for name in model)
        schema_editor.execute(f"ALTER INDEX {old}_pkey RENAME TO {new}_pkey")
        schema_editor.execute(f"ALTER SEQUENCE IF EXISTS {old}_id_seq RENAME TO {new}_id_seq")
    schema_editor.execute(GENERATED_NAMES)
    schema_editor.execute(FILLFACTOR)


def rename_permissions(apps: Any, schema_editor: Any) -> None:
    """Groups and users keep the permissions that they have."""
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label="accounts")
    for old, new in MODELS.items():
        for verb in ("add", "change", "delete", "view"):
            permissions.filter(codename=f"{verb}_{old.lower()}").update(
                codename=f"{verb}_{new.lower()}", name=f"Can {verb} {camel_case_to_spaces(new)}"
            )


class Migration(migrations.Migration):
    replaces = [
        ("accounts", "0026_narrowed_keys"),
        ("accounts", "0027_narrowed_keys_checked"),
        ("accounts", "0028_members"),
        ("accounts", "0029_public_id_name"),
        ("accounts", "0030_counters_without_redis"),
        ("accounts", "0031_keys_of_an_account"),
        ("accounts", "0032_webhooks"),
        ("accounts", "0033_standard_names"),
        ("accounts", "0034_usage_and_second_factor"),
    ]
    dependencies = [
        ("accounts", "0001_squashed_0025_rename_fields"),
        ("backoffice", "0001_squashed_0009_failed_sign_ins"),  # Its groups name the models of 1.1.0.
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        # Version 1.0.0 wrote to it. Its trigger would keep SQLite from recreating other tables.
        migrations.RunSQL("DROP TABLE IF EXISTS accounts_keyevent"),
        # These conditions change, or are in another order.
        migrations.RemoveConstraint("dailyusage", "usage_counts_from_zero"),
        migrations.RemoveConstraint("keystanding", "standing_counts_from_zero"),
        migrations.RemoveConstraint("refusal", "refusal_for_a_known_rule"),
        *(migrations.RemoveField("keystanding", name) for name in OBSOLETE_FIELDS),
        *(migrations.RenameModel(old, new) for old, new in MODELS.items()),
        *(RenameColumn(model, name) for model, names in FIELDS.items() for name in names),
        *(
            migrations.RenameIndex(model, old_name=old, new_name=new)
            for model, names in INDEXES.items()
            for old, new in names.items()
        ),
        *(RenameConstraints(model, names) for model, names in CONSTRAINTS.items()),
        migrations.AlterField("rejection", "reason", models.CharField(max_length=20, choices=REASONS)),
        migrations.RunSQL("UPDATE accounts_rejection SET reason = 'network_not_allowed' WHERE reason = 'elsewhere'"),
        migrations.AddConstraint(
            "dailyusage",
            models.CheckConstraint(name="daily_usage_not_negative", condition=Q(admitted__gte=0, rejected__gte=0)),
        ),
        migrations.AddConstraint(
            "ratelimitstate", models.CheckConstraint(name="ban_level_not_negative", condition=Q(ban_level__gte=0))
        ),
        migrations.AddConstraint(
            "rejection",
            models.CheckConstraint(name="rejection_reason_valid", condition=Q(reason__in=[value for value, _ in REASONS])),
        ),
        migrations.AlterField(
            "account",
            "public_id",
            models.CharField("public ID", default=accounts.keys.key_format.new_account_id, editable=False, max_length=8, unique=True),
        ),
        migrations.AddField(
            "account",
            "requires_second_factor",
            models.BooleanField(db_default=False, default=False, help_text="Whether members need an authenticator app or a passkey."),
        ),
        migrations.AlterField("apikey", "public_id", models.CharField("public ID", editable=False, max_length=14, unique=True)),
        migrations.AddField("apikey", "max_expires_at", models.DateTimeField("latest expiry", blank=True, editable=False, null=True)),
        migrations.AddConstraint(
            "apikey",
            models.CheckConstraint(
                name="key_expiry_within_maximum",
                condition=Q(max_expires_at__isnull=True) | Q(expires_at__isnull=False, expires_at__lte=F("max_expires_at")),
            ),
        ),
        migrations.AddIndex("apikey", models.Index(fields=["account", "-id"], name="key_of_account")),
        migrations.AddIndex(
            "apikey", models.Index(fields=["account", "revoked_at", "expires_at"], name="key_of_account_by_expiry")
        ),
        migrations.AddField(
            "ratelimitstate",
            "strike_generation",
            models.BigIntegerField(db_default=0, default=0, help_text="The number of the StrikeCounter row that is in use."),
        ),
        migrations.CreateModel(
            "Invitation",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(default=accounts.models.members.new_member_id, max_length=8, unique=True)),
                ("role", models.CharField(choices=ROLES, max_length=10)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("email", models.EmailField(max_length=254)),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("invited_by", models.BigIntegerField(blank=True, help_text="The ID of the user, if any.", null=True)),
                ("expires_at", models.DateTimeField()),
                ("closed_at", models.DateTimeField(blank=True, help_text="When it was accepted or withdrawn.", null=True)),
                ("account", models.ForeignKey("accounts.account", CASCADE, db_index=False, related_name="%(class)ss")),
            ],
            options={
                "ordering": ["pk"],
                "default_permissions": (),
                "indexes": [models.Index(fields=["account", "created_at"], name="invitation_of_account")],
                "constraints": [models.CheckConstraint(condition=Q(role__in=[role for role, _ in ROLES]), name="invitation_role_valid")],
            },
        ),
        migrations.CreateModel(
            "Membership",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(default=accounts.models.members.new_member_id, max_length=8, unique=True)),
                ("role", models.CharField(choices=ROLES, max_length=10)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("account", models.ForeignKey("accounts.account", CASCADE, db_index=False, related_name="%(class)ss")),
                ("user", models.ForeignKey(settings.AUTH_USER_MODEL, PROTECT, related_name="memberships")),
            ],
            options={
                "verbose_name": "account member",
                "ordering": ["pk"],
                "default_permissions": (),
                "constraints": [models.CheckConstraint(condition=Q(role__in=[role for role, _ in ROLES]), name="membership_role_valid"), models.UniqueConstraint(fields=("account", "user"), name="unique_membership")],
            },
        ),
        migrations.CreateModel(
            "QuotaUsage",
            [
                ("account", models.ForeignKey("accounts.account", CASCADE, db_constraint=False, db_index=False, related_name="usage")),
                ("generation", models.BigIntegerField(default=0)),
                ("pk", models.CompositePrimaryKey("account_id", "generation", blank=True, editable=False, primary_key=True, serialize=False)),
                ("updates", models.IntegerField(default=0, help_text="Updates of this row.")),
                ("minute_ends_at", models.BigIntegerField(default=0)),
                ("minute_used", models.BigIntegerField(default=0)),
                ("day", models.BigIntegerField(default=0)),
                ("day_used", models.BigIntegerField(default=0)),
                ("warned_threshold", models.SmallIntegerField(default=0, help_text="The highest percentage of the day's quota whose warning is stored (D41).")),
                ("last_write_at", models.BigIntegerField(default=0, help_text="The latest request that may write.")),
            ],
        ),
        migrations.CreateModel(
            "UsageGeneration",
            [
                ("account", models.OneToOneField("accounts.account", CASCADE, db_constraint=False, primary_key=True, related_name="+", serialize=False)),
                ("generation", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            "StrikeCounter",
            [
                ("key", models.ForeignKey("accounts.apikey", CASCADE, db_constraint=False, db_index=False, related_name="+")),
                ("generation", models.BigIntegerField(default=0)),
                ("pk", models.CompositePrimaryKey("key_id", "generation", blank=True, editable=False, primary_key=True, serialize=False)),
                ("updates", models.IntegerField(default=0)),
                ("rejecting_until", models.BigIntegerField(default=0, help_text="End of the window that rejected last, which identifies the strike window.")),
                ("first_rejection_at", models.BigIntegerField(default=0)),
                ("last_strike_at", models.BigIntegerField(default=0)),
                ("rejections", models.BigIntegerField(default=0)),
                ("strikes", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            "WebhookEndpoint",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(default=accounts.models.webhooks.new_public_id, max_length=14, unique=True, verbose_name="public ID")),
                ("url", models.CharField(max_length=2000, verbose_name="URL")),
                ("description", models.CharField(blank=True, max_length=255)),
                ("types", models.CharField(max_length=1000)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("disabled_at", models.DateTimeField(blank=True, null=True)),
                ("disabled_by", models.CharField(blank=True, choices=[("member", "Disabled"), ("staff", "Disabled by us"), ("failing", "Disabled after 5 days without a success"), ("gone", "Disabled because it responded with 410")], max_length=10)),
                ("secret_version", models.PositiveIntegerField(default=1)),
                ("pepper_number", models.PositiveSmallIntegerField(default=accounts.models.api_keys.get_signing_pepper_number)),
                ("old_pepper_number", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("old_secret_ends_at", models.DateTimeField(blank=True, null=True)),
                ("position", models.BigIntegerField(default=0)),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("first_attempt_at", models.DateTimeField(blank=True, null=True)),
                ("failing_since", models.DateTimeField(blank=True, null=True)),
                ("last_delivered_at", models.DateTimeField(blank=True, null=True)),
                ("next_attempt_at", models.DateTimeField(blank=True, null=True)),
                ("lease", models.CharField(blank=True, max_length=16)),
                ("account", models.ForeignKey("accounts.account", CASCADE, related_name="webhooks")),
            ],
            options={
                "verbose_name": "webhook",
                "ordering": ["pk"],
                "default_permissions": (),
                "indexes": [models.Index(condition=Q(disabled_at__isnull=True, next_attempt_at__isnull=False), fields=["next_attempt_at"], name="webhook_by_next_attempt")],
                "constraints": [
                    models.CheckConstraint(condition=Q(disabled_at__isnull=True, disabled_by="") | (Q(disabled_at__isnull=False) & ~Q(disabled_by="")), name="webhook_disabled_by_someone"),
                    models.CheckConstraint(condition=Q(old_pepper_number__isnull=True, old_secret_ends_at__isnull=True) | Q(old_pepper_number__isnull=False, old_secret_ends_at__isnull=False), name="webhook_old_secret_has_a_pepper"),
                    models.CheckConstraint(condition=Q(attempts=0, first_attempt_at__isnull=True) | Q(attempts__gt=0, failing_since__isnull=False, first_attempt_at__isnull=False), name="webhook_failing_since_its_first_failure"),
                ],
            },
        ),
        migrations.CreateModel(
            "WebhookAttempt",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(choices=[("delivery", "Delivery"), ("again", "Sent again"), ("test", "Test"), ("lost", "No longer stored")], default="delivery", max_length=10)),
                ("event_id", models.BigIntegerField()),
                ("event_type", models.CharField(max_length=30)),
                ("created_at", models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ("due_at", models.DateTimeField(null=True)),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("milliseconds", models.PositiveIntegerField(null=True)),
                ("error", models.CharField(blank=True, max_length=20)),
                ("response", models.TextField(blank=True)),
                ("next_attempt_at", models.DateTimeField(null=True)),
                ("parked", models.BooleanField(default=False)),
                ("endpoint", models.ForeignKey("accounts.webhookendpoint", CASCADE, db_index=False, related_name="attempt_log")),
            ],
            options={
                "ordering": ["-pk"],
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["endpoint", "-id"], name="attempt_of_webhook"),
                    models.Index(condition=Q(parked=True), fields=["endpoint", "event_id"], name="parked_event_of_webhook"),
                    models.Index(condition=Q(due_at__isnull=False), fields=["due_at"], name="attempt_by_due_time"),
                ],
            },
        ),
        migrations.CreateModel(
            "OperationUsage",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hours", models.PositiveSmallIntegerField(help_text="The length of the period: 1 or 24.")),
                ("start", models.BigIntegerField(help_text="The first hour of the period, in hours since the epoch.")),
                ("operation", models.CharField(help_text="Method and route, such as GET /v1/pets.", max_length=60)),
                ("status", models.PositiveSmallIntegerField()),
                ("requests", models.BigIntegerField()),
                ("account", models.ForeignKey("accounts.account", CASCADE, db_index=False, related_name="operation_usage")),
            ],
            options={
                "indexes": [models.Index(fields=["hours", "start"], name="operation_usage_by_time")],
                "constraints": [
                    models.UniqueConstraint(fields=("account", "hours", "start", "operation", "status"), name="one_usage_for_each_operation_and_period"),
                    models.CheckConstraint(condition=Q(hours__in=(1, 24)), name="operation_usage_of_hour_or_day"),
                ],
            },
        ),
        migrations.RunPython(change_postgresql),
        migrations.RunSQL(COPY_COUNTS),
        migrations.DeleteModel("QuotaCounter"),
        migrations.DeleteModel("Publication"),
        migrations.RunPython(rename_permissions),
    ]
