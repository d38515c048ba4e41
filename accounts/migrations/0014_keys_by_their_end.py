"""An index for keys that end soon, whose accounts are warned."""

from django.db import migrations, models
from django.db.models import Q

from petstore.db.operations import AddIndexConcurrently

ENDING = Q(revoked_at__isnull=True, expires_at__isnull=False)


class Migration(migrations.Migration):
    atomic = False  # It is made beside the writes, and may be made again.
    dependencies = [("accounts", "0013_keys_with_all_scopes")]
    operations = [
        AddIndexConcurrently(
            "apikey", models.Index(fields=["expires_at"], name="key_by_end", condition=ENDING)
        )
    ]
