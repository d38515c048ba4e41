"""Keys that have all scopes get the new one as well; narrowed keys do not (D43).

Redis is told within seconds by those who serve: it is on record which keys it has to be told of.
"""

from django.db import migrations

from petstore.db.operations import ValidateConstraint

BEFORE = "pets:read pets:write orders:read orders:write"
AFTER = f"{BEFORE} events:read"
TELL = """
INSERT INTO accounts_publication AS p (key_id, version, told)
SELECT id, 1, 0 FROM accounts_apikey WHERE scopes = %s AND revoked_at IS NULL ORDER BY id
ON CONFLICT (key_id) DO UPDATE SET version = p.version + 1
"""


def change(schema_editor, before, after):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("UPDATE accounts_apikey SET scopes = %s WHERE scopes = %s", [after, before])
        cursor.execute(TELL, [after])


def widen(apps, schema_editor):
    change(schema_editor, BEFORE, AFTER)


def narrow(apps, schema_editor):
    change(schema_editor, AFTER, BEFORE)


class Migration(migrations.Migration):
    dependencies = [("accounts", "0012_scope_of_events")]
    operations = [
        ValidateConstraint("apikey", "key_scopes_are_known"),
        migrations.RunPython(widen, narrow),
    ]
