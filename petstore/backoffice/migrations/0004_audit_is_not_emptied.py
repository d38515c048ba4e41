"""PostgreSQL refuses to empty the audit trail as well: TRUNCATE fires no trigger of rows; SQLite has none."""

from django.db import migrations

TABLE = "backoffice_auditentry"


def add(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(
            f"CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON {TABLE} "
            "FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()"
        )


def remove(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"DROP TRIGGER IF EXISTS audit_is_not_emptied ON {TABLE}")


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0003_groups")]
    operations = [migrations.RunPython(add, remove)]
