"""Index pets by a name that is folded regardless of the locale of the database.

In a Turkish database, no search for "iris" found "Iris".
"""

from django.db import migrations, models

from inventory.search import Folded
from petstore.db.operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("inventory", "0015_reword_texts")]
    operations = [AddIndexConcurrently("pet", models.Index(Folded("name"), "id", name="pet_by_folded_name"))]
