"""The migrations are compatible with the previous version."""

from typing import Any

import pytest
from django.db import connection

from tests.migration_safety import lint

pytestmark = pytest.mark.skipif(connection.vendor != "postgresql", reason="The rules are PostgreSQL's.")


def test_migrations_of_this_version_are_safe(django_db_setup: None, django_db_blocker: Any) -> None:
    with django_db_blocker.unblock():  # Outside a transaction, as migrations run. Nothing is written.
        assert lint()
