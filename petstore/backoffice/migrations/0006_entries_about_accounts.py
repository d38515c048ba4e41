"""Suspensions are in the audit trail, too. Nothing changes in the database: see 0005.

The actions are the model's own, so that one more needs no migration.
"""

from django.db import migrations, models

from petstore.backoffice.models import AuditEntry


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0005_entries_about_keys")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    "auditentry", "action", models.CharField(choices=AuditEntry.Action.choices, max_length=20)
                )
            ]
        )
    ]
