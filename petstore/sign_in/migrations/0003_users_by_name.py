"""Indexes for look-ups of users: by name without case, by address, and of staff."""

from django.db import migrations

from petstore.db.folding import fold

INDEXES = {
    "user_by_folded_name": "({name})",
    "user_by_email": "(email)",
    "user_on_staff": "(id) WHERE is_staff",
}
# What Django's `iexact` compares.
NAMES = {"postgresql": fold("username::text"), "sqlite": "username COLLATE NOCASE"}


def create_indexes(apps, schema_editor):
    vendor = schema_editor.connection.vendor
    concurrently = "CONCURRENTLY" if vendor == "postgresql" else ""
    for index, columns in INDEXES.items():
        columns = columns.format(name=NAMES[vendor])
        schema_editor.execute(f"CREATE INDEX {concurrently} IF NOT EXISTS {index} ON auth_user {columns}")


def drop_indexes(apps, schema_editor):
    for index in INDEXES:
        schema_editor.execute(f"DROP INDEX IF EXISTS {index}")


class Migration(migrations.Migration):
    atomic = False  # The indexes are made beside the writes, and may be made again.
    dependencies = [("sign_in", "0002_attempt_counters"), ("auth", "0012_alter_user_first_name_max_length")]
    operations = [migrations.RunPython(create_indexes, drop_indexes)]
