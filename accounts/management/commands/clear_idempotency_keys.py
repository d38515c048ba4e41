"""Forget answers that are no longer replayed."""

import sys
from typing import Any

from django.utils import timezone

from accounts.idempotency import KEPT
from accounts.models import IdempotencyRecord
from petstore.management.base import JsonCommand
from petstore.progress import Progress

BATCH = 10_000


class Command(JsonCommand):
    help = "Delete the answers kept for Idempotency-Key that are older than 24 hours. Run it daily."
    examples = """
        manage.py clear_idempotency_keys
        manage.py clear_idempotency_keys --json
        """

    def handle(self, *args: Any, **options: Any) -> None:
        old = IdempotencyRecord.objects.filter(created_at__lte=timezone.now() - KEPT)
        deleted = 0
        with Progress("Deleting", None, None if options["json"] else sys.stderr) as progress:
            while batch := list(old.values_list("pk", flat=True)[:BATCH]):
                deleted += IdempotencyRecord.objects.filter(pk__in=batch).delete()[0]
                progress.show(deleted)
        self.answer(options, {"deleted": deleted}, f"Done. Deleted {deleted} answers.")
