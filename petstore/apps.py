"""The project's own app, which has its commands, template tags and static files."""

from collections.abc import Iterable
from threading import Thread
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, models


class PetstoreConfig(AppConfig):
    name = "petstore"

    def ready(self) -> None:
        from petstore import checks  # noqa: F401

        check_field_types(apps.get_models())

    def start_worker(self) -> None:
        """Start the background threads. A new worker calls this method of every app that defines it."""
        from petstore.db import monitor
        from petstore.health import sampling
        from petstore.mail import email_queue
        from petstore.observability import sampler, tracing

        sampler.start()
        tracing.start_tracing()
        monitor.start_monitor()
        sampling.start()
        if settings.MAIL_SERVER:
            Thread(target=email_queue.run, name="mail", daemon=True).start()


def check_field_types(model_classes: Iterable[type[models.Model]]) -> None:
    """Raise ImproperlyConfigured for fields whose type Django's database backends don't have."""
    for model in model_classes:
        field: Any
        for field in model._meta.concrete_fields:
            value_field = field.target_field if field.is_relation else field
            if value_field.get_internal_type() not in connection.data_types:
                message = f"{field} is a {type(field).__name__}, which the event loop can't read or write."
                raise ImproperlyConfigured(message)
