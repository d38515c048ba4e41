"""The schema of version 2.0: returned, scheduled and cancelled orders, names that any locale folds, standard names.

Workers of 1.1.0 have to be stopped: see "Upgrading to 2.0" in docs/deploying.md.
"""

from typing import Any

from django.db import migrations, models
from django.db.models import Index, Q

from inventory.search import Folded
from petstore.db.keysets import TwoFilterKey
from petstore.db.operations import RenameConstraints

STATUSES = [("placed", "Placed"), ("approved", "Approved"), ("delivered", "Delivered"), ("cancelled", "Cancelled")]
CONSTRAINTS = {
    "category": {"category_has_a_name": "category_name_not_empty"},
    "order": {
        "one_live_order_for_a_pet": "unique_live_order_per_pet",
        "order_status_is_known": "order_status_valid",
        "order_ships_once_approved": "order_ship_date_needs_approval",
    },
    "pet": {"pet_has_a_name": "pet_name_not_empty", "pet_status_is_known": "pet_status_valid"},
    "stockcount": {"stock_count_is_one_row": "stock_count_single_row"},
}


def set_return_times(apps: Any, schema_editor: Any) -> None:
    events = apps.get_model("inventory", "OrderEvent").objects
    returns = events.filter(from_status="delivered", to_status="delivered").values_list("order", "at")
    for pk, at in returns:
        apps.get_model("inventory", "Order").objects.filter(pk=pk).update(returned_at=at)


def change_postgresql(apps: Any, schema_editor: Any) -> None:
    """Rename what SQLite has recreated, and drop an index that only SQLite uses."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(
            "ALTER INDEX inventory_petupload_made_at_9dc5468a RENAME TO inventory_petupload_created_at_b0553353"
        )
        schema_editor.execute("DROP INDEX pet_by_status")


class Migration(migrations.Migration):
    replaces = [
        ("inventory", "0014_scheduled_orders"),
        ("inventory", "0015_reword_texts"),
        ("inventory", "0016_pets_by_folded_name"),
        ("inventory", "0017_remove_pet_by_name_in_nfc"),
        ("inventory", "0018_remove_pet_by_status_from_postgresql"),
        ("inventory", "0019_standard_names"),
        ("inventory", "0020_returned_orders"),
        ("inventory", "0021_orders_returned_before"),
        ("inventory", "0022_delivered_and_cancelled"),
    ]
    dependencies = [("inventory", "0001_squashed_0013_remove_pet_by_name")]
    operations = [
        migrations.RenameField("petupload", "made_at", "created_at"),
        migrations.AlterField(
            "stockcount", "due_at", models.DateTimeField(help_text="When the next count may begin. A worker moves it first.")
        ),
        migrations.AlterField(
            "stockcount",
            "orders_approved",
            models.BigIntegerField(default=0, help_text="Including scheduled and shipped orders."),
        ),
        migrations.AddField("stockcount", "orders_scheduled", models.BigIntegerField(default=0, db_default=0)),
        migrations.AddField("stockcount", "orders_cancelled", models.BigIntegerField(default=0, db_default=0)),
        migrations.AlterField(
            "order", "status", models.CharField("API status", max_length=9, default="placed", choices=STATUSES)
        ),
        migrations.AddField("order", "returned_at", models.DateTimeField("returned", null=True, blank=True)),
        *(RenameConstraints(model, names) for model, names in CONSTRAINTS.items()),
        migrations.RunPython(set_return_times),
        # In a Turkish database, no search for "iris" found "Iris".
        migrations.RemoveIndex("pet", "pet_by_name_in_nfc"),
        migrations.AddIndex("pet", Index(Folded("name"), "id", name="pet_by_folded_name")),
        migrations.RemoveIndex("order", "order_done"),
        migrations.AddIndex("order", Index(fields=["id"], name="order_delivered", condition=Q(status="delivered"))),
        migrations.AddIndex("order", Index(fields=["id"], name="order_cancelled", condition=Q(status="cancelled"))),
        migrations.AddIndex(
            "order", Index(fields=["id"], name="order_returned", condition=Q(returned_at__isnull=False))
        ),
        migrations.AddIndex(
            "order",
            Index(
                "account", TwoFilterKey("id"), name="returned_order_of_account", condition=Q(returned_at__isnull=False)
            ),
        ),
        migrations.RunPython(change_postgresql),
    ]
