"""Delete expired data."""

from typing import Any

from django.contrib.sessions.models import Session
from django.utils import timezone

from accounts.management.commands import clear_events, clear_idempotency_keys
from inventory.models import PetUpload
from petstore.db.batches import delete_in_batches
from petstore.mail.models import find_expired
from petstore.management.base import JsonCommand
from petstore.sign_in.models import CacheEntry, find_ended_sessions

# Events are last, because only their deletion waits for other processes.
TASKS = {
    "idempotency_keys": clear_idempotency_keys.prune_expired,
    "sessions": lambda: delete_in_batches(Session.objects.filter(expire_date__lt=timezone.now())),
    "uploads": lambda: delete_in_batches(PetUpload.objects.expired()),
    "user_sessions": lambda: delete_in_batches(find_ended_sessions()),
    "cache_entries": lambda: delete_in_batches(CacheEntry.objects.filter(expires__lt=timezone.now())),
    "emails": lambda: delete_in_batches(find_expired()),
    "events": clear_events.prune_expired,
}


class Command(JsonCommand):
    help = (
        "Delete expired data: idempotency keys, sessions, uploaded files that were not imported, used "
        "codes, emails that could not be sent for 3 days, and events older than EVENT_RETENTION_DAYS. "
        "Run it daily. It may run on several machines at the same time."
    )
    examples = "manage.py housekeeping"

    def handle(self, *args: Any, **options: Any) -> None:
        deleted = {name: self.count_deleted(delete()) for name, delete in TASKS.items()}
        counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in deleted.items())
        self.write_result({"deleted": deleted}, f"Done. Deleted {counts}.")
