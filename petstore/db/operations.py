"""Migration operations for large tables that are in use, on PostgreSQL and SQLite.

On PostgreSQL they hold locks only briefly, and a failed migration can be run again. On SQLite they are
Django's plain operations.
"""

from typing import Any

from django.contrib.postgres import operations
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import BaseConstraint, Index, Model, UniqueConstraint

# to_regclass takes the table as text, so that the search path applies.
INDEX_EXISTS = """
SELECT 1 FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = to_regclass(%s) AND relname = %s
"""


class PortableOperation(Operation):
    """Runs an operation of django.contrib.postgres, or its `plain` counterpart on other databases."""

    plain: type[Operation]

    def database_forwards(self, *args: Any, **kwargs: Any) -> None:
        if uses_postgresql(*args):
            super().database_forwards(*args, **kwargs)
        else:
            self.plain.database_forwards(self, *args, **kwargs)

    def database_backwards(self, *args: Any, **kwargs: Any) -> None:
        if uses_postgresql(*args):
            super().database_backwards(*args, **kwargs)
        else:
            self.plain.database_backwards(self, *args, **kwargs)


def uses_postgresql(app_label: str, schema_editor: Any, *states: Any) -> bool:
    return bool(schema_editor.connection.vendor == "postgresql")


class AddIndexConcurrently(PortableOperation, operations.AddIndexConcurrently):
    """Requires `atomic = False`, and preferably a separate migration.

    A failed attempt leaves an invalid index behind, which slows down writes but serves no reads. An
    existing index with the same name is therefore dropped first. This is safe, because no applied migration
    created it.
    """

    plain = migrations.AddIndex

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if uses_postgresql(app_label, schema_editor):
            self._ensure_not_in_transaction(schema_editor)
            model = to_state.apps.get_model(app_label, self.model_name)
            if self.allow_migrate_model(schema_editor.connection.alias, model):
                drop_existing_index(schema_editor, model._meta.db_table, self.index)
        super().database_forwards(app_label, schema_editor, from_state, to_state)


class RemoveIndexConcurrently(PortableOperation, operations.RemoveIndexConcurrently):
    """Requires `atomic = False`."""

    plain = migrations.RemoveIndex


class AddConstraintNotValid(PortableOperation, operations.AddConstraintNotValid):
    """Adds a constraint that existing rows may violate. SQLite checks existing rows at once."""

    plain = migrations.AddConstraint


class ValidateConstraint(operations.ValidateConstraint):
    """Checks existing rows. SQLite did so when the constraint was added."""

    def database_forwards(self, *args: Any) -> None:
        if uses_postgresql(*args):
            super().database_forwards(*args)


def drop_existing_index(schema_editor: BaseDatabaseSchemaEditor, table: str, index: Index) -> None:
    if schema_editor.collect_sql:  # `sqlmigrate` prints the SQL of a first attempt.
        return
    quoted = schema_editor.quote_name(table)
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(INDEX_EXISTS, [quoted, index.name])
        exists = cursor.fetchone() is not None
    if exists:
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {schema_editor.quote_name(index.name)}")


class RenameConstraints(Operation):
    """Renames constraints of a model, by their names. SQLite recreates the table once for all of them."""

    reversible = True

    def __init__(self, model_name: str, names: dict[str, str]) -> None:
        self.model_name, self.names = model_name, names

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        options = state.models[app_label, self.model_name].options
        options["constraints"] = [self.rename(constraint) for constraint in options["constraints"]]
        state.reload_model(app_label, self.model_name, delay=True)

    def rename(self, constraint: BaseConstraint) -> BaseConstraint:
        renamed = constraint.clone()
        renamed.name = self.names.get(constraint.name, constraint.name)
        return renamed

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        self.alter(schema_editor, to_state.apps.get_model(app_label, self.model_name), self.names)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        names = {new: old for old, new in self.names.items()}
        self.alter(schema_editor, to_state.apps.get_model(app_label, self.model_name), names)

    def alter(self, schema_editor: Any, model: type[Model], names: dict[str, str]) -> None:
        if not uses_postgresql("", schema_editor):
            schema_editor._remake_table(model)
            return
        table, quote = model._meta.db_table, schema_editor.quote_name
        constraints = {constraint.name: constraint for constraint in model._meta.constraints}
        for old, new in names.items():
            constraint = constraints[new]
            # A conditional unique constraint is an index.
            if isinstance(constraint, UniqueConstraint) and constraint.condition:
                schema_editor.execute(f"ALTER INDEX {quote(old)} RENAME TO {quote(new)}")
            else:
                schema_editor.execute(
                    f"ALTER TABLE {quote(table)} RENAME CONSTRAINT {quote(old)} TO {quote(new)}"
                )

    def describe(self) -> str:
        return f"Rename constraints of {self.model_name}"
