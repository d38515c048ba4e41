"""The number of scheduled orders, which were counted as shipped. The status has a name that tells it from the stage."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inventory", "0013_remove_pet_by_name")]
    operations = [
        migrations.AddField(
            "stockcount", "orders_scheduled", models.BigIntegerField(default=0, db_default=0)
        ),
        migrations.AlterField(
            "order",
            "status",
            models.CharField(
                "API status",
                max_length=9,
                default="placed",
                choices=[
                    ("placed", "Placed"),
                    ("approved", "Approved"),
                    ("delivered", "Delivered"),
                    ("cancelled", "Cancelled"),
                ],
            ),
        ),
    ]
