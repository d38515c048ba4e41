"""Key events become entries of the audit trail: those that are there, and those still to come.

The version before this one goes on writing key events until it is replaced; a trigger copies each. It is
made first, and lets no writer in until the old rows are copied, so none is missed or copied twice.

The copies of old rows get ids below zero: older than every entry, in their own order. For the trail is read
in the order of ids, and the newest of it must be what happened last.
"""

from django.db import migrations

COLUMNS = "at, actor_id, actor_name, action, model, object_id, object_text, before, after, reason, address, request_id"


def values(event):
    return f"""{event}.at, {event}.actor_id, substr({event}.actor_name, 1, 150), {event}.action,
    'accounts.apikey', CAST({event}.key_id AS varchar(20)), k.public_id, '{{}}', '{{}}', {event}.reason,
    '0.0.0.0', ''"""


COPY_NEW = f"""INSERT INTO backoffice_auditentry ({COLUMNS})
    SELECT {values("NEW")} FROM accounts_apikey AS k WHERE k.id = NEW.key_id"""
COPY_OLD = f"""INSERT INTO backoffice_auditentry (id, {COLUMNS})
    SELECT e.id - (SELECT max(id) FROM accounts_keyevent) - 1, {values("e")}
    FROM accounts_keyevent AS e JOIN accounts_apikey AS k ON k.id = e.key_id
    WHERE NOT EXISTS (SELECT 1 FROM backoffice_auditentry WHERE id < 0)"""
POSTGRESQL = f"""
CREATE OR REPLACE FUNCTION copy_key_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {COPY_NEW};
    RETURN NULL;
END
$$;
CREATE TRIGGER copy_key_event AFTER INSERT ON accounts_keyevent FOR EACH ROW EXECUTE FUNCTION copy_key_event();
"""
SQLITE = f"CREATE TRIGGER copy_key_event AFTER INSERT ON accounts_keyevent BEGIN {COPY_NEW}; END"


def carry_over(apps, schema_editor):
    schema_editor.execute(POSTGRESQL if schema_editor.connection.vendor == "postgresql" else SQLITE)
    schema_editor.execute(COPY_OLD)


def stop(apps, schema_editor):
    """Copy no more. What was copied stays: nothing is taken from the trail."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP TRIGGER IF EXISTS copy_key_event ON accounts_keyevent")
        schema_editor.execute("DROP FUNCTION IF EXISTS copy_key_event()")
    else:
        schema_editor.execute("DROP TRIGGER IF EXISTS copy_key_event")


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0008_key_events_hold_nothing_back"),
        ("backoffice", "0005_entries_about_keys"),
    ]

    operations = [migrations.RunPython(carry_over, stop)]
