"""Suspensions are in the audit trail, too. Nothing changes in the database: see 0005.

The apps register the actions, so that one more needs no migration.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0005_entries_about_keys")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField("auditentry", "action", models.CharField(max_length=20))
            ]
        )
    ]
