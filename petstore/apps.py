"""The project's own app: its commands, and its templates' folder."""

from django.apps import AppConfig, apps


class PetstoreConfig(AppConfig):
    """What every request shares."""

    name = "petstore"

    def ready(self) -> None:
        from petstore.loop.compiled_writes import check_field_types

        check_field_types(apps.get_models())

    def start_worker(self) -> None:
        """Begin what a process that serves does beside its requests; wsgi.py calls this for each app."""
        from petstore.db import monitor
        from petstore.observability import tracing, worker

        worker.observe()
        tracing.send_spans()
        monitor.watch_servers()
