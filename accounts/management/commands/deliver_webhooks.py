"""Deliver webhooks in a process of their own."""

import os
import signal
from typing import Any

from django.conf import settings

from accounts.webhooks.delivery import Dispatcher
from petstore.management.base import DocumentedCommand

DEFAULT_SLOTS = 16
NICENESS = 10  # Serving requests goes first.


class Command(DocumentedCommand):
    help = (
        "Deliver webhooks until SIGTERM or Ctrl-C, like the workers of `serve`. Any number of these "
        "processes may run. With WEBHOOK_WORKERS=0, the workers leave all webhooks to them."
    )
    examples = "manage.py deliver_webhooks"

    def handle(self, *args: Any, **options: Any) -> None:
        os.nice(NICENESS)
        signals = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # In all threads.
        dispatcher = Dispatcher(settings.WEBHOOK_WORKERS or DEFAULT_SLOTS)
        dispatcher.start()
        self.stdout.write("Delivering webhooks. Stop with Ctrl-C.")
        # A handler would run within the loop, which may hold the lock of what stops it.
        signal.sigwait(signals)
        dispatcher.stop()
