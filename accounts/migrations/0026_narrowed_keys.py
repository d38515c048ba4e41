"""The latest expiry of a narrowed key and its replacements (D50). The next migration checks existing rows.

SQLite recreates the table. When it renames the new table, it would check all triggers, and one of them
(copy_key_event) uses the table.
"""

from django.db import migrations, models
from django.db.models import F, Q

from petstore.db.operations import AddConstraintNotValid


def trust_triggers(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("PRAGMA legacy_alter_table = ON")


def check_triggers(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("PRAGMA legacy_alter_table = OFF")


class Migration(migrations.Migration):
    dependencies = [("accounts", "0025_rename_fields")]
    operations = [
        migrations.RunPython(trust_triggers, check_triggers),
        migrations.AddField(
            "apikey",
            "max_expires_at",
            models.DateTimeField("latest expiry", blank=True, editable=False, null=True),
        ),
        AddConstraintNotValid(
            "apikey",
            models.CheckConstraint(
                condition=Q(max_expires_at__isnull=True)
                | Q(expires_at__isnull=False, expires_at__lte=F("max_expires_at")),
                name="key_expires_by_its_latest_expiry",
            ),
        ),
        migrations.RunPython(check_triggers, trust_triggers),
    ]
