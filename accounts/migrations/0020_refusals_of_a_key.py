"""Take away the index of the foreign key: refusal_by_key begins with the same column."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0019_refusals_by_key")]
    operations = [
        migrations.AlterField(
            "refusal",
            "key",
            models.ForeignKey(
                "accounts.ApiKey",
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="refusals",
            ),
        ),
    ]
