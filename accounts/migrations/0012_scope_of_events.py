"""Keys may have the scope events:read. Keys that are there are not read meanwhile: the next one does it.

SQLite makes the table anew, and gives it the old one's name. As it is now, it would first look through all
triggers, and find one (copy_key_event) that uses a table which is not there just then.
"""

from django.db import migrations, models

from petstore.db.operations import AddConstraintNotValid


def trust_triggers(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("PRAGMA legacy_alter_table = ON")


def check_triggers(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("PRAGMA legacy_alter_table = OFF")


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0011_events'),
    ]

    operations = [
        migrations.RunPython(trust_triggers, check_triggers),
        migrations.RemoveConstraint(
            model_name='apikey',
            name='key_scopes_are_known',
        ),
        migrations.AlterField(
            model_name='apikey',
            name='scopes',
            field=models.CharField(default='pets:read pets:write orders:read orders:write events:read', max_length=100),
        ),
        AddConstraintNotValid(
            model_name='apikey',
            constraint=models.CheckConstraint(condition=models.Q(('scopes__in', ('pets:read', 'pets:write', 'orders:read', 'orders:write', 'events:read', 'pets:read pets:write', 'pets:read orders:read', 'pets:read orders:write', 'pets:read events:read', 'pets:write orders:read', 'pets:write orders:write', 'pets:write events:read', 'orders:read orders:write', 'orders:read events:read', 'orders:write events:read', 'pets:read pets:write orders:read', 'pets:read pets:write orders:write', 'pets:read pets:write events:read', 'pets:read orders:read orders:write', 'pets:read orders:read events:read', 'pets:read orders:write events:read', 'pets:write orders:read orders:write', 'pets:write orders:read events:read', 'pets:write orders:write events:read', 'orders:read orders:write events:read', 'pets:read pets:write orders:read orders:write', 'pets:read pets:write orders:read events:read', 'pets:read pets:write orders:write events:read', 'pets:read orders:read orders:write events:read', 'pets:write orders:read orders:write events:read', 'pets:read pets:write orders:read orders:write events:read'))), name='key_scopes_are_known'),
        ),
        migrations.RunPython(check_triggers, trust_triggers),
    ]
