"""Operations of migrations for tables that are big and in use, which work on every database of ours.

On PostgreSQL they hold no lock for long, and a migration that gave up may simply be run again. SQLite has
one writer and small tables: there they do the same in the plain way.
"""

from typing import Any

from django.contrib.postgres import operations
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import Index

# An index of this name on this table. The table is named as a text, so that the search path finds it.
LEFT_BEHIND = """
SELECT 1 FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = to_regclass(%s) AND relname = %s
"""


class PlainElsewhere(Operation):
    """An operation of Django's for PostgreSQL, which is its plain one on other databases."""

    plain: type[Operation]

    def database_forwards(self, *args: Any, **kwargs: Any) -> None:
        if on_postgresql(*args):
            super().database_forwards(*args, **kwargs)
        else:
            self.plain.database_forwards(self, *args, **kwargs)

    def database_backwards(self, *args: Any, **kwargs: Any) -> None:
        if on_postgresql(*args):
            super().database_backwards(*args, **kwargs)
        else:
            self.plain.database_backwards(self, *args, **kwargs)


def on_postgresql(app_label: str, schema_editor: Any, *states: Any) -> bool:
    return bool(schema_editor.connection.vendor == "postgresql")


class Nothing(Operation):
    def database_forwards(self, *args: Any, **kwargs: Any) -> None: ...

    database_backwards = database_forwards


class AddIndexConcurrently(PlainElsewhere, operations.AddIndexConcurrently):
    """Make an index beside the writes; needs `atomic = False`, and best a migration of its own.

    An attempt that was cancelled, or gave up waiting for a lock, leaves an index behind that costs every
    write and serves no read. So what has the name already is dropped first: no migration that is recorded
    has made it.
    """

    plain = migrations.AddIndex

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if on_postgresql(app_label, schema_editor):
            self._ensure_not_in_transaction(schema_editor)
            model = to_state.apps.get_model(app_label, self.model_name)
            if self.allow_migrate_model(schema_editor.connection.alias, model):
                drop_left_behind(schema_editor, model._meta.db_table, self.index)
        super().database_forwards(app_label, schema_editor, from_state, to_state)


class RemoveIndexConcurrently(PlainElsewhere, operations.RemoveIndexConcurrently):
    """Remove an index beside reads and writes; needs `atomic = False`."""

    plain = migrations.RemoveIndex


class AddConstraintNotValid(PlainElsewhere, operations.AddConstraintNotValid):
    """Add a check for rows to come, without reading those that are there; SQLite checks them at once."""

    plain = migrations.AddConstraint


class ValidateConstraint(PlainElsewhere, operations.ValidateConstraint):
    """Check the rows that were there before the constraint; SQLite did so when it was added."""

    plain = Nothing


def drop_left_behind(schema_editor: BaseDatabaseSchemaEditor, table: str, index: Index) -> None:
    """Drop the index if there is one of its name on the table."""
    if schema_editor.collect_sql:  # `sqlmigrate` asks for the SQL of a first attempt.
        return
    quoted = schema_editor.quote_name(table)
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(LEFT_BEHIND, [quoted, index.name])
        found = cursor.fetchone()
    if found:
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {schema_editor.quote_name(index.name)}")
