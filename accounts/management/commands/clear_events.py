"""Forget events that are kept no longer."""

from typing import Any

from accounts.events.clearing import clear_some
from accounts.events.numbering import number_all
from petstore.management.base import JsonCommand


class Command(JsonCommand):
    help = "Delete events that are older than EVENTS_KEPT_DAYS, a few at a time. Run it daily."
    examples = """
        manage.py clear_events
        manage.py clear_events --json
        """

    def handle(self, *args: Any, **options: Any) -> None:
        deleted = 0
        with self.bar("Deleting", None, options) as bar:
            while some := clear_some():
                number_all()  # Those who else do so hardly ever find the feed free meanwhile.
                deleted += some
                bar.update(some)
        self.answer(options, {"deleted": deleted}, f"Done. Deleted {deleted} events.")
