"""Remove the index that the last migration's replaces.

The version before this one finds the same pets without it, only slower, until it is replaced.
"""

from django.db import migrations

from petstore.db.operations import RemoveIndexConcurrently


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("inventory", "0016_pets_by_folded_name")]
    operations = [RemoveIndexConcurrently("pet", "pet_by_name_in_nfc")]
