"""Creates the cache table, and copies the second factors of django-otp, which django-allauth replaces.

The tables of django-otp stay, so that the previous version still works during the upgrade.
"""

from base64 import b32encode
from time import time

from django.db import migrations, models


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

    dependencies = [("mfa", "0003_authenticator_type_uniq")]

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
        migrations.RunPython(copy_second_factors, migrations.RunPython.noop, elidable=True),
    ]
