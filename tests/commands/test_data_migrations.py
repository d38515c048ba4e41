"""Migrations that change rows."""

from importlib import import_module
from typing import Any

from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection

from tests.conftest import COMMITTED
from tests.support.staff import PASSWORD, enter_password, is_signed_in
from tests.support.two_factor import current_code, get_recovery_codes


@COMMITTED
def test_upgrade_keeps_apps_and_recovery_codes() -> None:
    boss = User.objects.create_superuser("boss", password=PASSWORD)
    tables = {
        "otp_totp_totpdevice": "id integer, user_id integer, key varchar(80), confirmed boolean",
        "otp_static_staticdevice": "id integer, user_id integer",
        "otp_static_statictoken": "id integer, device_id integer, token varchar(16)",
    }
    rows: dict[str, list[tuple[Any, ...]]] = {
        "otp_totp_totpdevice": [
            (1, boss.pk, b"12345678901234567890".hex(), True),
            (2, boss.pk, "00", False),
        ],
        "otp_static_staticdevice": [(3, boss.pk)],
        "otp_static_statictoken": [(4, 3, "aaaaaaaa"), (5, 3, "bbbbbbbb")],
    }
    migration: Any = import_module("petstore.sign_in.migrations.0001_initial")
    with connection.cursor() as cursor:
        for table, columns in tables.items():
            cursor.execute(f"CREATE TABLE {table} ({columns})")
            for row in rows[table]:
                values = [value.hex() if isinstance(value, bytes) else value for value in row]
                cursor.execute(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", values)
    try:
        with connection.schema_editor() as editor:
            migration.copy_second_factors(apps, editor)
    finally:
        with connection.cursor() as cursor:
            for table in tables:
                cursor.execute(f"DROP TABLE {table}")
    client = enter_password()
    client.post("/account/login/code/", {"code": current_code("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ")})
    assert is_signed_in(client)
    assert get_recovery_codes(boss) == ["aaaaaaaa", "bbbbbbbb"]
