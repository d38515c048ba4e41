"""Forget answers that are no longer replayed."""

from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from accounts.idempotency import KEPT
from accounts.models import IdempotencyRecord

BATCH = 10_000


class Command(BaseCommand):
    help = "Delete the answers kept for Idempotency-Key that are older than 24 hours. Run it daily."

    def handle(self, *args: Any, **options: Any) -> None:
        old = IdempotencyRecord.objects.filter(created_at__lte=timezone.now() - KEPT)
        deleted = 0
        while batch := list(old.values_list("pk", flat=True)[:BATCH]):
            deleted += IdempotencyRecord.objects.filter(pk__in=batch).delete()[0]
        self.stdout.write(f"Done. Deleted {deleted} answers.")
