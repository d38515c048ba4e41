"""Indexes for the newest keys of an account and for its active ones, however many have ended."""

from django.db import migrations, models

from petstore.db.operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # It is made beside the writes, and may be made again.
    dependencies = [("accounts", "0030_counters_without_redis")]
    operations = [
        AddIndexConcurrently("apikey", models.Index(fields=["account", "-id"], name="key_of_account")),
        AddIndexConcurrently(
            "apikey",
            models.Index(fields=["account", "revoked_at", "expires_at"], name="key_of_account_by_end"),
        ),
    ]
