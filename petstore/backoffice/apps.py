"""The app of the back office: its audit trail and its groups."""

from django.apps import AppConfig


class BackOfficeConfig(AppConfig):
    name = "petstore.backoffice"
    label = "backoffice"
    verbose_name = "Back office"

    def ready(self) -> None:
        """Hear of sign-ins and sign-outs."""
        from petstore.backoffice import audit, sessions  # noqa: F401
