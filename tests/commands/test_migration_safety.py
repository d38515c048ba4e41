"""A migration that the version before it could not live with is found before it is released."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from inventory import migrations
from tests.migration_safety import FIRST_VERSION, lint

pytestmark = pytest.mark.skipif(connection.vendor != "postgresql", reason="The rules are PostgreSQL's.")

Plant = Callable[..., bool]


@pytest.fixture
def database(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The test database outside a transaction, as migrations see it. Nothing is written."""
    with django_db_blocker.unblock():
        yield


@pytest.fixture
def plant(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, database: None) -> Plant:
    """Adds a migration to those of `inventory`, and tells whether all are safe."""

    def plant(*operations: str, atomic: bool = True) -> bool:
        package = tmp_path / "planted"
        package.mkdir()
        (package / "__init__.py").write_text(f"__path__.append({str(Path(migrations.__path__[0]))!r})\n")
        (package / "0099_planted.py").write_text(
            "import django.db.models.deletion\n"
            "from petstore.db.operations import AddConstraintNotValid, AddIndexConcurrently\n"
            "from django.db import migrations, models\n"
            "class Migration(migrations.Migration):\n"
            f"    dependencies = [('inventory', '{FIRST_VERSION['inventory']}')]\n"
            f"    atomic = {atomic}\n"
            f"    operations = [{', '.join(operations)}]\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        settings.MIGRATION_MODULES = {"inventory": "planted"}
        try:
            return lint()
        finally:
            for name in [name for name in sys.modules if name.partition(".")[0] == "planted"]:
                del sys.modules[name]

    return plant


def test_migrations_of_this_version_are_safe(database: None) -> None:
    assert lint()


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        ("migrations.RemoveField('pet', 'name')", "DROPPING columns (table: inventory_pet, column: name)"),
        ("migrations.AddField('pet', 'tag', models.TextField(default='-'))", "NOT NULL constraint"),
        ("migrations.AlterField('order', 'ship_date', models.DateTimeField())", "NOT NULL constraint"),
        ("migrations.RenameField('pet', 'name', 'called')", "RENAMING columns"),
        ("migrations.RenameModel('pet', 'animal')", "RENAMING tables"),
        ("migrations.DeleteModel('petupload')", "DROPPING table"),
        ("migrations.AlterField('pet', 'name', models.CharField(max_length=9))", "ALTERING columns"),
        ("migrations.AddIndex('pet', models.Index('updated_at', name='late'))", "CREATE INDEX locks table"),
        (
            "migrations.AddConstraint('pet', models.UniqueConstraint(fields=['name'], name='unique_name'))",
            "ADDING unique constraint",
        ),
        (
            "migrations.AddConstraint('pet', models.CheckConstraint("
            "condition=models.Q(id__gt=0), name='positive'))",
            "ADDING a constraint reads the table",
        ),
    ],
)
def test_unsafe_migration_is_found(
    plant: Plant, capsys: pytest.CaptureFixture[str], operation: str, why: str
) -> None:
    assert not plant(operation)
    printed = capsys.readouterr().out
    assert "(inventory, 0099_planted)... ERR" in printed
    assert why in printed


@pytest.mark.parametrize(
    ("operation", "atomic"),
    [
        ("migrations.AddField('pet', 'tag', models.TextField(null=True))", True),
        ("migrations.AddField('pet', 'tag', models.TextField(db_default='-'))", True),
        ("migrations.CreateModel('Vet', [('id', models.BigAutoField(primary_key=True))])", True),
        ("AddIndexConcurrently('pet', models.Index('updated_at', name='late'))", False),
        (
            "AddConstraintNotValid('pet', models.CheckConstraint("
            "condition=models.Q(id__gt=0), name='positive'))",
            True,
        ),
    ],
)
def test_migration_that_the_old_version_need_not_know_is_let_through(
    plant: Plant, operation: str, atomic: bool
) -> None:
    assert plant(operation, atomic=atomic)
