"""The database itself refuses to change or delete what the audit trail says."""

from django.db import migrations

TEXT = "The audit trail is append-only."
TABLE = "backoffice_auditentry"

POSTGRESQL = f"""
CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '{TEXT}' USING ERRCODE = 'integrity_constraint_violation';
END
$$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON {TABLE}
    FOR EACH ROW EXECUTE FUNCTION audit_is_append_only();
"""
SQLITE = [
    f"""CREATE TRIGGER audit_refuses_{verb} BEFORE {verb} ON {TABLE}
    BEGIN SELECT RAISE(ABORT, '{TEXT}'); END"""
    for verb in ("update", "delete")
]


def add(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(POSTGRESQL)
    else:
        for statement in SQLITE:
            schema_editor.execute(statement)


def remove(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"DROP TRIGGER IF EXISTS audit_is_append_only ON {TABLE}")
        schema_editor.execute("DROP FUNCTION IF EXISTS audit_is_append_only()")
    else:
        for verb in ("update", "delete"):
            schema_editor.execute(f"DROP TRIGGER IF EXISTS audit_refuses_{verb}")


class Migration(migrations.Migration):

    dependencies = [("backoffice", "0001_audit")]

    operations = [migrations.RunPython(add, remove)]
