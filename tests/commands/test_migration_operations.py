"""The migration operations in docs/deploying.md work on both databases and can be retried."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.postgres.operations import NotInTransactionMixin
from django.db import IntegrityError, OperationalError, connection, migrations, models, transaction
from django.db.migrations.state import ProjectState

from petstore.db.operations import (
    AddConstraintNotValid,
    AddIndexConcurrently,
    RemoveIndexConcurrently,
    ValidateConstraint,
)
from tests.conftest import COMMITTED
from tests.support.concurrency import uncommitted
from tests.support.skips import NEEDS_POSTGRESQL

pytestmark = COMMITTED

TABLE = "animals_animal"
INDEX = models.Index("name", name="animal_by_name")
CHECK = models.CheckConstraint(name="animal_has_a_name", condition=~models.Q(name=""))


@pytest.fixture
def state() -> Iterator[ProjectState]:
    """A table with two rows, one of them without a name."""
    new_state = apply(
        ProjectState(),
        migrations.CreateModel(
            "Animal", [("id", models.BigAutoField(primary_key=True)), ("name", models.TextField())]
        ),
    )
    execute(f"INSERT INTO {TABLE} (name) VALUES ('Rex'), ('')")
    yield new_state
    execute(f"DROP TABLE {TABLE}")


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def apply(state: ProjectState, operation: Any, *, backwards: bool = False) -> ProjectState:
    """Apply an operation, in a transaction if it is atomic, and return the new state."""
    new_state = state.clone()
    operation.state_forwards("animals", new_state)
    with connection.schema_editor(atomic=not isinstance(operation, NotInTransactionMixin)) as editor:
        if backwards:
            operation.database_backwards("animals", editor, new_state, state)
        else:
            operation.database_forwards("animals", editor, state, new_state)
    return new_state


def get_indexes() -> dict[str, bool]:
    """Return whether each index of the table is valid, by name."""
    with connection.cursor() as cursor:
        if connection.vendor != "postgresql":
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = %s", [TABLE])
            return {name: True for (name,) in cursor.fetchall()}
        cursor.execute(
            "SELECT relname, indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
            "WHERE indrelid = %s::regclass AND NOT indisprimary",
            [TABLE],
        )
        return dict(cursor.fetchall())


def test_index_is_created_and_removed_in_both_directions(state: ProjectState) -> None:
    new_state = apply(state, AddIndexConcurrently("animal", INDEX))
    assert get_indexes() == {INDEX.name: True}
    remove = RemoveIndexConcurrently("animal", INDEX.name)
    apply(new_state, remove)
    assert get_indexes() == {}
    apply(new_state, remove, backwards=True)
    assert get_indexes() == {INDEX.name: True}
    apply(state, AddIndexConcurrently("animal", INDEX), backwards=True)
    assert get_indexes() == {}


@NEEDS_POSTGRESQL  # SQLite creates an index in a transaction, so it is never left incomplete.
def test_failed_index_is_created_by_the_next_attempt(state: ProjectState) -> None:
    add = AddIndexConcurrently("animal", INDEX)
    execute("SET lock_timeout = '50ms'")
    try:
        with (
            uncommitted(lambda: execute(f"UPDATE {TABLE} SET name = 'Max'")),
            pytest.raises(OperationalError),
        ):
            apply(state, add)
        assert get_indexes() == {INDEX.name: False}
        for _ in range(2):  # The first migration may have failed to be recorded.
            apply(state, add)
            assert get_indexes() == {INDEX.name: True}
    finally:
        execute("RESET lock_timeout")


@NEEDS_POSTGRESQL  # On SQLite, no index is dropped.
def test_index_with_the_same_name_on_another_table_is_not_dropped(state: ProjectState) -> None:
    execute(f"CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.{TABLE} (name text)")
    try:
        execute(f"CREATE INDEX {INDEX.name} ON elsewhere.{TABLE} (name)")
        apply(state, AddIndexConcurrently("animal", INDEX))
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_indexes WHERE indexname = %s", [INDEX.name])
            assert cursor.fetchone() == (2,)
    finally:
        execute("DROP SCHEMA elsewhere CASCADE")


def test_constraint_holds_for_new_rows_before_validation(state: ProjectState) -> None:
    add, validate = AddConstraintNotValid("animal", CHECK), ValidateConstraint("animal", CHECK.name)
    original_state = state
    if connection.vendor == "postgresql":
        state = apply(state, add)
        with pytest.raises(IntegrityError):
            apply(state, validate)
        execute(f"UPDATE {TABLE} SET name = 'Max' WHERE name = ''")
    else:
        with pytest.raises(IntegrityError):
            apply(state, add)
        execute(f"UPDATE {TABLE} SET name = 'Max' WHERE name = ''")
        state = apply(state, add)
    apply(state, validate)
    with pytest.raises(IntegrityError), transaction.atomic():
        execute(f"INSERT INTO {TABLE} (name) VALUES ('')")
    apply(original_state, add, backwards=True)
    execute(f"INSERT INTO {TABLE} (name) VALUES ('')")
