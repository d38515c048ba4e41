"""Count in tables of their own, whose rows are replaced after some updates.

Workers of the previous version still write the tables and columns of their counters during the upgrade. These leave
the state now, and the database with the next release. The counts of the day are copied.
"""

from typing import Any

from django.db import migrations, models
from django.db.models import CASCADE, CheckConstraint, Q

OBSOLETE_FIELDS = (
    "retry_after_until", "strikes", "strikes_expire_at", "rejecting_until", "first_rejection_at", "last_strike_at",
    "window_rejections", "window_strikes", "unban_count",
)  # fmt: skip

# Most updates of a half-empty page stay on it, and need no new entry in the index (HOT).
FILLFACTOR = "ALTER TABLE {} SET (fillfactor = 50)"
COPY_GENERATIONS = """
INSERT INTO accounts_usagegeneration (account_id, generation)
SELECT q.account_id, 0 FROM accounts_quotacounter AS q JOIN accounts_account AS a ON a.id = q.account_id
"""
COPY_COUNTS = """
INSERT INTO accounts_quotausage (account_id, generation, updates, minute_ends_at, minute_used, day, day_used,
    warned_threshold, last_write_at)
SELECT q.account_id, 0, 0, q.minute_ends, q.minute_used, q.day, q.day_used, 0, 0
FROM accounts_quotacounter AS q JOIN accounts_account AS a ON a.id = q.account_id
"""


def set_fillfactor(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        for table in ("accounts_quotausage", "accounts_strikecounter"):
            schema_editor.execute(FILLFACTOR.format(table))


def big_integer(**options: Any) -> Any:
    return models.BigIntegerField(default=0, **options)


class Migration(migrations.Migration):
    dependencies = [("accounts", "0029_public_id_name")]
    operations = [
        migrations.CreateModel(
            "QuotaUsage",
            [
                (
                    "account",
                    models.ForeignKey(
                        "accounts.account", CASCADE, db_constraint=False, db_index=False, related_name="usage"
                    ),
                ),
                ("generation", big_integer()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "account_id", "generation", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("updates", models.IntegerField(default=0, help_text="Updates of this row.")),
                ("minute_ends_at", big_integer()),
                ("minute_used", big_integer()),
                ("day", big_integer()),
                ("day_used", big_integer()),
                (
                    "warned_threshold",
                    models.SmallIntegerField(
                        default=0,
                        help_text="The highest percentage of the day's quota whose warning is stored (D41).",
                    ),
                ),
                ("last_write_at", big_integer(help_text="The latest request that may write.")),
            ],
        ),
        migrations.CreateModel(
            "UsageGeneration",
            [
                (
                    "account",
                    models.OneToOneField(
                        "accounts.account",
                        CASCADE,
                        db_constraint=False,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                    ),
                ),
                ("generation", big_integer()),
            ],
        ),
        migrations.CreateModel(
            "StrikeCounter",
            [
                (
                    "key",
                    models.ForeignKey(
                        "accounts.apikey", CASCADE, db_constraint=False, db_index=False, related_name="+"
                    ),
                ),
                ("generation", big_integer()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "key_id", "generation", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("updates", models.IntegerField(default=0)),
                (
                    "rejecting_until",
                    big_integer(help_text="End of the window that rejected last, which identifies the strike window."),
                ),
                ("first_rejection_at", big_integer()),
                ("last_strike_at", big_integer()),
                ("rejections", big_integer()),
                ("strikes", big_integer()),
            ],
        ),
        migrations.RunPython(set_fillfactor, migrations.RunPython.noop),
        migrations.RunSQL(COPY_GENERATIONS, migrations.RunSQL.noop),
        migrations.RunSQL(COPY_COUNTS, migrations.RunSQL.noop),
        migrations.AddField(
            "keystanding",
            "strike_generation",
            big_integer(db_default=0, help_text="The number of the StrikeCounter row that is in use."),
        ),
        # This version inserts rows without these columns.
        *(
            migrations.AlterField("keystanding", name, big_integer(db_column=column, db_default=0))
            for name, column in (("retry_after_until", "told_until"), ("strikes", None), ("strikes_expire_at", "strikes_end"))
        ),
        # Accounts can be deleted while their old counters remain.
        migrations.AlterField(
            "quotacounter",
            "account",
            models.OneToOneField(
                "accounts.account", CASCADE, db_constraint=False, primary_key=True, related_name="quota", serialize=False
            ),
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveConstraint("keystanding", "standing_counts_from_zero"),
                migrations.AddConstraint(
                    "keystanding",
                    CheckConstraint(name="standing_counts_from_zero", condition=Q(ban_level__gte=0)),
                ),
                *(migrations.RemoveField("keystanding", name) for name in OBSOLETE_FIELDS),
                migrations.DeleteModel("QuotaCounter"),
                migrations.DeleteModel("Publication"),
            ]
        ),
    ]
