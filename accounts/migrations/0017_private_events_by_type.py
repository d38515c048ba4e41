"""An index for staff, who look for events of one type among those of all accounts."""

from django.db import migrations, models
from django.db.models import Q

from petstore.db.keysets import OneFilterKey
from petstore.db.operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # It is made beside the writes, and may be made again.
    dependencies = [("accounts", "0016_suspension_checked")]
    operations = [
        AddIndexConcurrently(
            "event",
            models.Index(
                "type", OneFilterKey("id"), name="private_event_of_type", condition=Q(account_id__gt=0)
            ),
        )
    ]
