"""The app of the back office: its audit trail and its groups."""

from django.apps import AppConfig


class BackOfficeConfig(AppConfig):
    name = "petstore.backoffice"
    label = "backoffice"
    verbose_name = "Back office"

    def ready(self) -> None:
        """Hear of sign-ins and sign-outs; call users and groups what pages call them."""
        from django.contrib.auth.models import Group, User

        from petstore.backoffice import audit, sessions  # noqa: F401

        # Migrations don't see it: they go by what the models' own Meta says.
        User._meta.verbose_name, User._meta.verbose_name_plural = "member of staff", "staff"
        Group._meta.verbose_name, Group._meta.verbose_name_plural = "role", "roles"
