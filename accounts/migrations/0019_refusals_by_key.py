"""An index for the newest refusals of a key; and 0018's constraint holds for the rows that were there."""

from django.db import migrations, models

from petstore.db.operations import AddIndexConcurrently, ValidateConstraint


class Migration(migrations.Migration):
    atomic = False  # It is made beside the writes, and may be made again.
    dependencies = [("accounts", "0018_refusals_of_keys")]
    operations = [
        ValidateConstraint("refusal", "refusal_for_a_known_rule"),
        AddIndexConcurrently("refusal", models.Index(fields=["key", "-id"], name="refusal_by_key")),
    ]
