"""The project's own app: its commands, and its templates' folder."""

from django.apps import AppConfig, apps

from petstore.observability import health
from petstore.serving.signals import worker_started


class PetstoreConfig(AppConfig):
    """What every request shares."""

    name = "petstore"

    def ready(self) -> None:
        """Register what readiness depends on, and what a process that serves does beside its requests."""
        from petstore.db import monitor, readiness, replicas
        from petstore.loop.compiled_writes import check_field_types
        from petstore.observability import tracing, worker

        check_field_types(apps.get_models())
        health.require("database", readiness.database)
        health.require("migrations", readiness.migrations)
        health.tell(
            replicas.states
        )  # One that is away or behind stops nobody: the primary is read instead.
        worker_started.connect(worker.observe)
        worker_started.connect(tracing.send_spans)
        worker_started.connect(monitor.watch_servers)
