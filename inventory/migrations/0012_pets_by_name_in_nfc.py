"""Index pets by name in NFC, so that a search finds every spelling of a name."""

from django.db import migrations, models

from inventory.search import Folded
from petstore.db.operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("inventory", "0011_stages_of_orders")]
    operations = [AddIndexConcurrently("pet", models.Index(Folded("name"), "id", name="pet_by_name_in_nfc"))]
