"""Remove an index that PostgreSQL does not use, but updates with each new pet."""

from django.db import migrations

from petstore.db.operations import RemoveIndexFromPostgresql


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("inventory", "0017_remove_pet_by_name_in_nfc")]
    operations = [RemoveIndexFromPostgresql("pet", "pet_by_status")]
