"""The tables of the cache, indexes for look-ups of users, and the second factors of django-otp, which 1.1.0 used.

They are copied to the tables of django-allauth, and dropped.
"""

from base64 import b32encode
from time import time

from django.db import migrations, models

from petstore.db.folding import fold

OTP_TABLES = ("otp_static_statictoken", "otp_static_staticdevice", "otp_totp_totpdevice")
# By name without case, by address, and of staff.
USER_INDEXES = {
    "user_by_folded_name": "({name})",
    "user_by_email": "(email)",
    "user_on_staff": "(id) WHERE is_staff",
}
# What Django's `iexact` compares.
NAMES = {"postgresql": fold("username::text"), "sqlite": "username COLLATE NOCASE"}


def create_indexes(apps, schema_editor):
    for index, columns in USER_INDEXES.items():
        columns = columns.format(name=NAMES[schema_editor.connection.vendor])
        schema_editor.execute(f"CREATE INDEX {index} ON auth_user {columns}")


def read(cursor, columns, table):
    cursor.execute(f"SELECT {columns} FROM {table} ORDER BY id")
    return cursor.fetchall()


def copy_second_factors(apps, schema_editor):
    authenticators = apps.get_model("mfa", "Authenticator").objects.using(schema_editor.connection.alias)
    with schema_editor.connection.cursor() as cursor:
        tables = set(schema_editor.connection.introspection.table_names(cursor))
        if not {"otp_totp_totpdevice", "otp_static_statictoken"} <= tables:
            return
        secrets = {
            user: b32encode(bytes.fromhex(key)).decode()
            for user, key, is_confirmed in read(cursor, "user_id, key, confirmed", "otp_totp_totpdevice")
            if is_confirmed
        }
        users = dict(read(cursor, "id, user_id", "otp_static_staticdevice"))
        codes = {user: [] for user in secrets}
        for device, token in read(cursor, "device_id, token", "otp_static_statictoken"):
            codes.setdefault(users[device], []).append(token)
    for user, secret in secrets.items():
        authenticators.get_or_create(user_id=user, type="totp", defaults={"data": {"secret": secret}})
    for user, tokens in codes.items():
        data = {"migrated_codes": tokens, "viewed_at": time()}
        authenticators.get_or_create(user_id=user, type="recovery_codes", defaults={"data": data})


class Migration(migrations.Migration):
    initial = True
    # And itself, but Django would remove it.
    replaces = [
        ("sign_in", "0002_attempt_counters"),
        ("sign_in", "0003_users_by_name"),
        ("sign_in", "0004_drop_otp_tables"),
    ]
    dependencies = [
        ("mfa", "0003_authenticator_type_uniq"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]
    operations = [
        migrations.CreateModel(
            name="CacheEntry",
            fields=[
                ("cache_key", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("value", models.TextField()),
                ("expires", models.DateTimeField(db_index=True)),
            ],
            options={"db_table": "cache_entries", "default_permissions": ()},
        ),
        migrations.CreateModel(
            name="AttemptCounter",
            fields=[
                ("name", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("value", models.BigIntegerField()),
                ("expires", models.FloatField(db_index=True)),
            ],
            options={"default_permissions": ()},
        ),
        migrations.RunPython(create_indexes),
        migrations.RunPython(copy_second_factors),
        *(migrations.RunSQL(f"DROP TABLE IF EXISTS {table}") for table in OTP_TABLES),
    ]
