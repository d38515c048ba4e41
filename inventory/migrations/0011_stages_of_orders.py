"""The stages of orders: an index for the list of each, and how many there are."""

from django.db import migrations, models

from petstore.db.operations import AddIndexConcurrently, RemoveIndexConcurrently

STAGES = {
    "to_approve": models.Q(status="placed"),
    "to_ship": models.Q(status="approved", ship_date__isnull=True),
    "shipped": models.Q(status="approved", ship_date__isnull=False),
    "done": models.Q(status__in=("delivered", "cancelled")),
}


class Migration(migrations.Migration):
    atomic = False  # The indexes are made beside the writes; each may be made again.
    dependencies = [("inventory", "0010_orders_of_an_account")]
    operations = [
        *(
            migrations.AddField("stockcount", name, models.BigIntegerField(default=0, db_default=0))
            for name in ("orders_shipped", "orders_done")
        ),
        migrations.AlterField(
            "stockcount",
            "orders_approved",
            models.BigIntegerField(default=0, help_text="Those that have shipped, too."),
        ),
        *(
            AddIndexConcurrently(
                "order", models.Index(fields=["id"], name=f"order_{stage}", condition=condition)
            )
            for stage, condition in STAGES.items()
        ),
        RemoveIndexConcurrently("order", "order_waiting"),
    ]
