"""Checks that each new migration may run while the previous version still serves: what `make check` calls.

    DATABASE_URL=postgresql://... python -m tests.migration_safety

The rules are django-migration-linter's for PostgreSQL, including warnings, and one custom rule. A migration
must be compatible with the previous version and hold no lock for long; removals follow one version later:
see docs/deploying.md. The PostgreSQL of DATABASE_URL is only used to generate SQL.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from django_migration_linter import MigrationLinter
from django_migration_linter.sql_analyser.base import Check, CheckMode, CheckType
from django_migration_linter.sql_analyser.postgresql import PostgresqlAnalyser

# The migrations of version 2.0, whose upgrade stops all instances. Later ones are checked.
RELEASED = {
    "accounts": "0026_version_2",
    "backoffice": "0010_version_2",
    "health": "0001_initial",
    "inventory": "0014_version_2",
    "mail": "0001_initial",
    "sign_in": "0001_initial",
}

# Migrations that violate a rule but are safe, with the reason.
ACCEPTED: dict[tuple[str, str], str] = {}


def checks_old_rows(statements: list[str], **_: Any) -> bool:
    """Return whether a constraint is validated against existing rows, under a lock that blocks writes."""
    for statement in statements:
        found = re.match(r'ALTER TABLE ("\w+") .*\b(CHECK|REFERENCES)\b', statement)
        if found is None or "NOT VALID" in statement:
            continue
        new_table = any(one.startswith(f"CREATE TABLE {found[1]}") for one in statements)
        empty_column = found[2] == "REFERENCES" and re.search(r"ADD COLUMN \S+ \S+ NULL\b", statement)
        if not new_table and not empty_column:
            return True
    return False


class Analyser(PostgresqlAnalyser):
    """The linter's rules for PostgreSQL, and the custom rule."""

    migration_checks = [
        *PostgresqlAnalyser.migration_checks,
        Check(
            code="CHECKS_OLD_ROWS",
            fn=checks_old_rows,
            message="ADDING a constraint reads the table under a lock. Add it NOT VALID, validate it later",
            mode=CheckMode.TRANSACTION,
            type=CheckType.ERROR,
        ),
    ]


def lint() -> bool:
    """Lint every migration since version 2.0; return whether all are safe."""
    linter = MigrationLinter(
        no_cache=True,
        analyser_string="postgresql",  # The linter doesn't recognize our database backend.
        all_warnings_as_errors=True,
        exclude_migration_tests=["RUNPYTHON_ARGS_NAMING_CONVENTION", "RUNPYTHON_MODEL_VARIABLE_NAME"],
    )
    linter.sql_analyser_class = Analyser
    for (app, name), migration in sorted(linter.migration_loader.disk_migrations.items()):
        if app in RELEASED and name > RELEASED[app] and (app, name) not in ACCEPTED:
            linter.lint_migration(migration)
    return not linter.has_errors


def main() -> int:
    """Print the results; return 1 if a migration is unsafe."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "petstore.settings"
    import django

    django.setup()
    return int(not lint())


if __name__ == "__main__":
    sys.exit(main())
