"""A worker's thread that samples gauges."""

import logging
import platform
import threading
from time import sleep
from typing import Any
from weakref import WeakSet

import django
from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from petstore.observability.instrumentation import count_in_flight
from petstore.observability.log_writer import log_writer
from petstore.observability.metrics import BUILD, DATABASE_CONNECTIONS, IN_FLIGHT, WORKERS
from petstore.observability.metrics_files import lacks_space

logger = logging.getLogger(__name__)

SAMPLE_SECONDS = 1


class ConnectionTracker:
    """Counts Django's open database connections in this process, without those of the event loop."""

    def __init__(self) -> None:
        self._opened: WeakSet[BaseDatabaseWrapper] = WeakSet()
        self._lock = threading.Lock()  # A set must not change during iteration.

    def add(self, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
        """Receive Django's signal `connection_created`."""
        with self._lock:
            self._opened.add(connection)

    def count(self) -> dict[str, int]:
        """Count the open connections by database alias."""
        counts = dict.fromkeys(settings.DATABASES, 0)
        with self._lock:
            for wrapper in self._opened:
                if wrapper.connection is not None and not getattr(wrapper.connection, "closed", False):
                    counts[wrapper.alias] = counts.get(wrapper.alias, 0) + 1
        return counts


connection_tracker = ConnectionTracker()


def start() -> None:
    log_writer.start()
    connection_created.connect(connection_tracker.add)
    WORKERS.set(1)
    if lacks_space():
        logger.error("The metrics of this worker are missing from /metrics: METRICS_DIR has no space.")
    version = settings.SPECTACULAR_SETTINGS["VERSION"]
    BUILD.labels(version, platform.python_version(), django.get_version()).set(1)
    threading.Thread(target=sample_forever, name="sampler", daemon=True).start()


def sample_forever() -> None:
    while True:
        IN_FLIGHT.set(count_in_flight())
        for alias, count in connection_tracker.count().items():
            DATABASE_CONNECTIONS.labels(alias).set(count)
        sleep(SAMPLE_SECONDS)
