"""What a worker does beside its requests, so that operators see it."""

import platform
import threading
from multiprocessing.util import Finalize
from time import sleep
from typing import Any
from weakref import WeakSet

import django
from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from petstore.observability.instrumentation import in_flight
from petstore.observability.log_writer import log_writer
from petstore.observability.metrics import BUILD, DATABASE_CONNECTIONS, IN_FLIGHT, WORKERS, deferred_updates

FLUSH_SECONDS = 0.2  # Seconds: what a worker that is killed has not counted.
FLUSHES_PER_SAMPLE = 5  # Times that.


class Connections:
    """The database connections that this process has opened and not closed."""

    def __init__(self) -> None:
        self._opened: WeakSet[BaseDatabaseWrapper] = WeakSet()
        self._lock = threading.Lock()  # A set must not grow while it is read.

    def add(self, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
        """Note a connection: a receiver of Django's signal `connection_created`."""
        with self._lock:
            self._opened.add(connection)

    def count(self) -> dict[str, int]:
        """Return how many there are of each database, by its alias in the settings."""
        found = dict.fromkeys(settings.DATABASES, 0)
        with self._lock:
            for wrapper in self._opened:
                if wrapper.connection is not None and not getattr(wrapper.connection, "closed", False):
                    found[wrapper.alias] = found.get(wrapper.alias, 0) + 1
        return found


connections = Connections()


def observe() -> None:
    """Write the log to standard output from now on, and sample."""
    log_writer.start(descriptor=1)
    deferred_updates.start()
    Finalize(None, deferred_updates.stop, exitpriority=0)  # A worker ends without atexit.
    connection_created.connect(connections.add)
    WORKERS.set(1)
    version = settings.SPECTACULAR_SETTINGS["VERSION"]
    BUILD.labels(version, platform.python_version(), django.get_version()).set(1)
    threading.Thread(target=run, name="samples", daemon=True).start()


def run() -> None:
    """Take, all the time, the numbers that requests would pay for."""
    while True:
        IN_FLIGHT.set(in_flight())
        for alias, number in connections.count().items():
            DATABASE_CONNECTIONS.labels(alias).set(number)
        for _ in range(FLUSHES_PER_SAMPLE):
            sleep(FLUSH_SECONDS)
            deferred_updates.flush()
