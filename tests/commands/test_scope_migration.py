"""An upgrade grants a new scope only to keys that have all scopes (D43)."""

from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace

from django.db import connection

from accounts.keys.scopes import ALL_SCOPES
from accounts.models import ApiKey

MIGRATION = import_module("accounts.migrations.0013_keys_with_all_scopes")


def test_keys_with_all_scopes_get_the_new_one(
    issue: Callable[..., tuple[ApiKey, str]],
) -> None:
    full, _ = issue(key_scopes=MIGRATION.BEFORE.split())
    narrow, _ = issue(key_scopes=["pets:read"])
    MIGRATION.widen(None, SimpleNamespace(connection=connection))
    assert ApiKey.objects.get(pk=full.pk).scopes == ALL_SCOPES
    assert ApiKey.objects.get(pk=narrow.pk).scopes == "pets:read"
