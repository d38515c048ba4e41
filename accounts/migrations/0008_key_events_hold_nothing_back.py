"""The table of key events is no longer ours to read or write: its rows go into the audit trail.

It stays for the version before this one, which writes it while an upgrade lasts. Without foreign keys it
holds no key and no member of staff back. The next version drops it, and the permissions on it.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0007_publications_and_shares_of_a_day"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField(
            "keyevent",
            "actor",
            models.ForeignKey(
                blank=True,
                db_constraint=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AlterField(
            "keyevent",
            "key",
            models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="events",
                to="accounts.apikey",
            ),
        ),
        migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel("KeyEvent")]),
    ]
