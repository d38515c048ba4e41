"""Accounts, keys, plans, quota and events."""

from threading import Thread

from django.apps import AppConfig
from django.conf import settings

WEBHOOK_REST = 9  # Delivering takes at most a tenth of a busy worker's time, without the sending itself.


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        from accounts import checks  # noqa: F401  Registers them.

    def start_worker(self) -> None:
        """Start the threads that write usage, sequence events and deliver webhooks."""
        from accounts.events import sequencing
        from accounts.usage import write_behind
        from accounts.webhooks import delivery

        write_behind.recorder.start()
        Thread(target=sequencing.run_sequencing, name="events", daemon=True).start()
        if settings.WEBHOOK_WORKERS:
            delivery.Dispatcher(settings.WEBHOOK_WORKERS, rest=WEBHOOK_REST).start()
