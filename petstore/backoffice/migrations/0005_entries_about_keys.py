"""What was done to keys is in the audit trail, too. Nothing changes in the database.

The state alone is altered: on SQLite Django would make the table anew, without the triggers that guard it.
"""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0004_audit_is_not_emptied")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    "auditentry",
                    "action",
                    models.CharField(
                        choices=[
                            ("added", "Added"),
                            ("changed", "Changed"),
                            ("deleted", "Deleted"),
                            ("issued", "Issued"),
                            ("rotated", "Rotated"),
                            ("revoked", "Revoked"),
                            ("banned", "Banned"),
                            ("unbanned", "Unbanned"),
                            ("password_accepted", "Gave the password"),
                            ("signed_in", "Signed in"),
                            ("sign_in_failed", "Failed to sign in"),
                            ("signed_out", "Signed out"),
                            ("two_factor_on", "Turned two-factor on"),
                            ("two_factor_off", "Turned two-factor off"),
                            ("two_factor_reset", "Reset a colleague's two-factor"),
                            ("recovery_codes", "Made new recovery codes"),
                        ],
                        max_length=20,
                    ),
                ),
                migrations.AlterField(
                    "auditentry",
                    "actor_name",
                    models.CharField(blank=True, max_length=150, verbose_name="by"),
                ),
                migrations.AlterField(
                    "auditentry",
                    "at",
                    models.DateTimeField(db_index=True, default=django.utils.timezone.now),
                ),
            ]
        )
    ]
