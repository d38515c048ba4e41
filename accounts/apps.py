"""Accounts, keys, plans, quota and events."""

from threading import Thread

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        from accounts import checks  # noqa: F401  Registers them.

    def start_worker(self) -> None:
        """Start the threads that write usage and sequence events."""
        from accounts.events import sequencing
        from accounts.usage import write_behind

        write_behind.recorder.start()
        Thread(target=sequencing.run_sequencing, name="events", daemon=True).start()
