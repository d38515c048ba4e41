"""The upgrade from version 1.1.0: its database gets the same schema as a new one, and keeps its rows."""

import os
import re
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.live import ROOT, manage
from tests.support.migrated import migrated_database, name_of, temporary_database

# One line each: an account with a banned key, a rejection from a network that the key does not allow, a
# returned order, and a former colleague with an authenticator app.
ROWS = [
    """INSERT INTO accounts_plan (code) VALUES ('enterprise')""",
    """INSERT INTO accounts_plan (code, per_minute, per_day) VALUES ('free', 60, 1000)""",
    """INSERT INTO accounts_account (id, public_id, name, plan_id, created_at)
       VALUES (1, '00000001', 'Acme', 'free', '2026-11-01')""",
    """INSERT INTO accounts_apikey (id, account_id, public_id, mode, name, digest, pepper_number, scopes,
                                    allowed_networks, created_at, revoked_reason)
       VALUES (1, 1, '00000001abcdef', 'live', '', '', 1, 'pets:read', '[]', '2026-11-01', '')""",
    """INSERT INTO accounts_keystanding (key_id, told_until, strikes, strikes_end, banned_at, banned_until,
                                         ban_level, looks, looks_end) VALUES (1, 1, 2, 3, 4, 5, 6, 7, 8)""",
    """INSERT INTO accounts_refusal (request_id, at, account_id, key_id, rule, method, route)
       VALUES ('r', '2026-11-02', 1, 1, 'elsewhere', 'GET', '/v1/pets')""",
    """INSERT INTO accounts_dailyusage (key_id, day, requests, refusals) VALUES (1, '2026-11-02', 9, 8)""",
    """INSERT INTO accounts_quotacounter (account_id, minute_ends, minute_used, day, day_used, seen_at,
                                          admitted, day_here) VALUES (1, 60, 3, 20000, 40, 0, true, 0)""",
    """INSERT INTO accounts_feed (id, last_id, numbered_at, cleared_id, cleared_at, swept_at)
       VALUES (1, 5, 4, 3, 2, 1)""",
    """INSERT INTO django_content_type (id, app_label, model) VALUES (1000, 'accounts', 'refusal')""",
    """INSERT INTO auth_permission (id, content_type_id, codename, name)
       VALUES (1000, 1000, 'view_refusal', 'Can view refusal')""",
    """INSERT INTO inventory_category (id, name, description) VALUES (1, 'Dogs', '')""",
    """INSERT INTO inventory_pet (id, name, status, created_at, updated_at, category_id)
       VALUES (1, 'Rex', 'available', '2026-11-01', '2026-11-03', 1)""",
    """INSERT INTO inventory_order (id, status, created_at, updated_at, pet_id, account_id)
       VALUES (1, 'delivered', '2026-11-02', '2026-11-03', 1, 1)""",
    """INSERT INTO inventory_orderevent (at, from_status, to_status, by, reason, order_id)
       VALUES ('2026-11-03 00:00:00', 'delivered', 'delivered', 'Staff', 'Returned', 1)""",
    """INSERT INTO auth_user (id, username, password, is_superuser, is_staff, is_active, first_name,
                              last_name, email, date_joined)
       VALUES (1, 'former', '', false, false, false, '', '', '', '2026-11-01')""",
    """INSERT INTO otp_totp_totpdevice (user_id, name, confirmed, key, step, t0, digits, tolerance, drift,
                                        last_t, throttling_failure_count)
       VALUES (1, '', true, '3132', 30, 0, 6, 1, 0, 0, 0)""",
]
EXPECTED = {
    "SELECT banned_until, ban_level, peeks, peeks_reset_at FROM accounts_ratelimitstate": (5, 6, 7, 8),
    "SELECT request_id, reason FROM accounts_rejection": ("r", "network_not_allowed"),
    "SELECT admitted, rejected FROM accounts_dailyusage": (9, 8),
    "SELECT minute_used, day_used FROM accounts_quotausage": (3, 40),
    """SELECT last_id, last_sequenced_at, last_pruned_id, last_pruned_sequenced_at, warnings_checked_at
       FROM accounts_feed""": (5, 4, 3, 2, 1),
    """SELECT codename, name, model FROM auth_permission JOIN django_content_type AS t
       ON t.id = content_type_id WHERE auth_permission.id = 1000""": (
        "view_rejection",
        "Can view rejection",
        "rejection",
    ),
    "SELECT returned_at = at FROM inventory_order o JOIN inventory_orderevent ON order_id = o.id": (True,),
    "SELECT is_staff, is_active FROM auth_user": (True, False),
    "SELECT user_id, type FROM mfa_authenticator ORDER BY type DESC": (1, "totp"),
}


def connect(url: str) -> Any:
    if url.startswith("sqlite"):
        return sqlite3.connect(name_of(url), isolation_level=None)
    return psycopg.connect(url, autocommit=True)


def run(url: str, *statements: str) -> None:
    connection = connect(url)
    for statement in statements:
        if isinstance(connection, sqlite3.Connection):
            connection.executescript(statement)
        else:
            connection.execute(statement)
    connection.close()


def read(url: str, query: str) -> tuple[Any, ...]:
    connection = connect(url)
    row: tuple[Any, ...] = connection.execute(query).fetchone()
    connection.close()
    return row


def dump_schema(url: str) -> list[str]:
    if url.startswith("sqlite"):
        connection = connect(url)
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name")
        return [f"{kind} {name}: {sql}" for kind, name, sql in rows]
    if shutil.which("pg_dump") is None:
        pytest.skip("No pg_dump is installed.")
    done = subprocess.run(["pg_dump", "--schema-only", url], capture_output=True, text=True, check=True)
    # Restoring a dump changes casts and parentheses, and newer versions add a random token.
    lines = (
        re.sub(r"::(character varying|text)(\[\])?|[()]", "", line) for line in done.stdout.splitlines()
    )
    return [line for line in lines if not line.startswith("\\")]


def test_upgraded_database_equals_a_new_one_and_keeps_its_rows(tmp_path: Path) -> None:
    with temporary_database(tmp_path) as url:
        kind = "sqlite" if url.startswith("sqlite") else "postgresql"
        run(url, (ROOT / f"tests/released.{kind}.sql").read_text(), *ROWS)
        manage(os.environ | {"DATABASE_URL": url}, "migrate", "--verbosity", "0")
        assert {query: read(url, query) for query in EXPECTED} == EXPECTED
        assert dump_schema(url) == dump_schema(migrated_database())
