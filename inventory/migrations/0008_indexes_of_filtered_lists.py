"""An index for each filter of a list, in an order that no other index gives: see petstore/db/keysets.py."""

from django.db import migrations, models

from petstore.db.keysets import OneFilterKey, TwoFilterKey
from petstore.db.operations import AddIndexConcurrently

INDEXES = [
    ("order", models.Index("account", OneFilterKey("id"), name="order_of_account")),
    ("order", models.Index("account", "status", TwoFilterKey("id"), name="order_of_account_and_status")),
    ("order", models.Index("status", OneFilterKey("id"), name="order_of_status")),
    ("pet", models.Index("category", OneFilterKey("id"), name="pet_of_category")),
    ("pet", models.Index("category", "status", TwoFilterKey("id"), name="pet_of_category_and_status")),
]


class Migration(migrations.Migration):
    atomic = False  # They are made beside the writes; each may be made again.
    dependencies = [("inventory", "0007_back_office_lists")]
    operations = [AddIndexConcurrently(model, index) for model, index in INDEXES]
