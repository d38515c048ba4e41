"""Take away the index of the foreign key: order_of_account begins with the same column."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inventory", "0009_indexes_that_no_list_reads")]
    operations = [
        migrations.AlterField(
            "order",
            "account",
            models.ForeignKey(
                "accounts.Account",
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="orders",
            ),
        ),
    ]
