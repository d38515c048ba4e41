"""Take away the index of the foreign key: one_answer_for_an_idempotency_key begins with the same column."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0020_refusals_of_a_key")]
    operations = [
        migrations.AlterField(
            "idempotencyrecord",
            "account",
            models.ForeignKey(
                "accounts.Account",
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
            ),
        ),
    ]
