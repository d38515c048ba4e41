"""Migrations that change rows."""

from importlib import import_module
from types import SimpleNamespace

import pytest
from django.db import connection

from accounts.keys.scopes import ALL_SCOPES
from accounts.models import Account, ApiKey
from accounts.quota.store import read_windows
from tests.conftest import Issue
from tests.support.quota import NOON

SCOPES = import_module("accounts.migrations.0013_keys_with_all_scopes")
COUNTERS = import_module("accounts.migrations.0030_counters_without_redis")
OLD_COUNTER = """
INSERT INTO accounts_quotacounter
    (account_id, minute_ends, minute_used, day, day_used, seen_at, admitted, day_here)
VALUES (%s, %s, 3, 20800, 40, 0, true, 0)
"""


def test_keys_with_all_scopes_get_the_new_one(issue: Issue) -> None:
    """D43"""
    full, _ = issue(key_scopes=SCOPES.BEFORE.split())
    narrow, _ = issue(key_scopes=["pets:read"])
    SCOPES.widen(None, SimpleNamespace(connection=connection))
    assert ApiKey.objects.get(pk=full.pk).scopes == ALL_SCOPES
    assert ApiKey.objects.get(pk=narrow.pk).scopes == "pets:read"


@pytest.mark.parametrize("is_deleted", [False, True])
def test_counts_are_copied_for_accounts_that_exist(account: Account, *, is_deleted: bool) -> None:
    with connection.cursor() as cursor:
        cursor.execute(OLD_COUNTER, [account.pk, NOON + 1])
        if is_deleted:
            account.delete()
        for statement in (COUNTERS.COPY_GENERATIONS, COUNTERS.COPY_COUNTS):
            cursor.execute(statement)
        cursor.execute("SELECT count(*) FROM accounts_quotausage")
        assert cursor.fetchone() == (int(not is_deleted),)
    if not is_deleted:
        assert [window.used for window in read_windows(account, NOON)] == [3, 40]
