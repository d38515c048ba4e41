"""The app of the back office, with its audit trail and its groups, and Django's admin for it."""

from django.apps import AppConfig
from django.contrib.admin import apps as admin_apps


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


class PetstoreAdminConfig(admin_apps.AdminConfig):
    """Django's admin, with our own site as the default one."""

    default = False  # Or else the entry "petstore.backoffice" in INSTALLED_APPS would mean this one.
    default_site = "petstore.backoffice.site.PetstoreAdminSite"
    at_start = True  # A worker loads it with its first page: see petstore/urls.py.

    def ready(self) -> None:
        if self.at_start:
            super().ready()
