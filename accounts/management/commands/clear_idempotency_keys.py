"""Delete expired idempotency records."""

from typing import Any

from django.utils import timezone

from accounts.idempotency import RETENTION
from accounts.models import IdempotencyRecord
from petstore.management.base import JsonCommand

BATCH = 10_000


class Command(JsonCommand):
    help = "Delete responses stored for Idempotency-Key for more than 24 hours. Run it daily."
    examples = """
        manage.py clear_idempotency_keys
        manage.py clear_idempotency_keys --json
        """

    def handle(self, *args: Any, **options: Any) -> None:
        old = IdempotencyRecord.objects.filter(created_at__lte=timezone.now() - RETENTION)
        deleted = 0
        with self.progress_bar("Deleting", None, options) as bar:
            while batch := list(old.values_list("pk", flat=True)[:BATCH]):
                deleted += IdempotencyRecord.objects.filter(pk__in=batch).delete()[0]
                bar.update(len(batch))
        self.write_result(options, {"deleted": deleted}, f"Done. Deleted {deleted} responses.")
