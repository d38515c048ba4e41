"""Migration operations for big tables in use, on PostgreSQL and SQLite.

On PostgreSQL they hold no lock for long, and a migration that failed may simply be run again. On SQLite
they are Django's plain operations.
"""

from typing import Any

from django.contrib.postgres import operations
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import Index

# The table is a text, so that the search path applies.
INDEX_EXISTS = """
SELECT 1 FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = to_regclass(%s) AND relname = %s
"""


class PlainElsewhere(Operation):
    """Runs one of Django's PostgreSQL operations there, and its plain counterpart on other databases."""

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
    """Requires `atomic = False`, and preferably a migration of its own.

    A failed attempt leaves an invalid index behind, which slows down writes and serves no reads. An index
    of the same name is therefore dropped first: no recorded migration has created it.
    """

    plain = migrations.AddIndex

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if on_postgresql(app_label, schema_editor):
            self._ensure_not_in_transaction(schema_editor)
            model = to_state.apps.get_model(app_label, self.model_name)
            if self.allow_migrate_model(schema_editor.connection.alias, model):
                drop_invalid_index(schema_editor, model._meta.db_table, self.index)
        super().database_forwards(app_label, schema_editor, from_state, to_state)


class RemoveIndexConcurrently(PlainElsewhere, operations.RemoveIndexConcurrently):
    """Requires `atomic = False`."""

    plain = migrations.RemoveIndex


class AddConstraintNotValid(PlainElsewhere, operations.AddConstraintNotValid):
    """Applies to new rows, without reading existing ones. SQLite checks these at once."""

    plain = migrations.AddConstraint


class ValidateConstraint(PlainElsewhere, operations.ValidateConstraint):
    """Checks existing rows. SQLite did so when the constraint was added."""

    plain = Nothing


def drop_invalid_index(schema_editor: BaseDatabaseSchemaEditor, table: str, index: Index) -> None:
    if schema_editor.collect_sql:  # `sqlmigrate` shows the SQL of a first attempt.
        return
    quoted = schema_editor.quote_name(table)
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(INDEX_EXISTS, [quoted, index.name])
        found = cursor.fetchone()
    if found:
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {schema_editor.quote_name(index.name)}")
