from django.db import migrations, models

from petstore.db.operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # It is made beside the writes, and may be made again.
    dependencies = [("inventory", "0014_birth_date")]
    operations = [AddIndexConcurrently("pet", models.Index(fields=["birth_date"], name="pet_by_birth_date"))]
