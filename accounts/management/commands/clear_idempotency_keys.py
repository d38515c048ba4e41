"""Delete expired idempotency records."""

from typing import Any

from django.utils import timezone

from accounts.idempotency import RETENTION
from accounts.models import IdempotencyRecord
from petstore.management.base import JsonCommand

BATCH_SIZE = 10_000


class Command(JsonCommand):
    help = "Delete the responses stored for idempotency keys that are older than 24 hours. Run it daily."
    examples = """
        manage.py clear_idempotency_keys
        manage.py clear_idempotency_keys --json
        """

    def handle(self, *args: Any, **options: Any) -> None:
        expired = IdempotencyRecord.objects.filter(created_at__lte=timezone.now() - RETENTION)
        deleted = 0
        with self.progress_bar("Deleting", None, options) as bar:
            while batch := list(expired.values_list("pk", flat=True)[:BATCH_SIZE]):
                deleted += IdempotencyRecord.objects.filter(pk__in=batch).delete()[0]
                bar.update(len(batch))
        self.write_result(options, {"deleted": deleted}, f"Done. Deleted {deleted} responses.")
