"""App configurations of the back office and of Django's admin."""

from django.apps import AppConfig
from django.contrib.admin import apps as admin_apps


class BackOfficeConfig(AppConfig):
    name = "petstore.backoffice"
    label = "backoffice"
    verbose_name = "Back office"

    def ready(self) -> None:
        from django.contrib.auth.models import Group, User

        from petstore.backoffice import sessions  # noqa: F401  Connects its signal receiver.

        # These models belong to Django. A change to their Meta would need a migration.
        User._meta.verbose_name, User._meta.verbose_name_plural = "member of staff", "staff"
        Group._meta.verbose_name, Group._meta.verbose_name_plural = "role", "roles"


class PetstoreAdminConfig(admin_apps.AdminConfig):
    default = False  # `petstore.backoffice` in INSTALLED_APPS selects BackOfficeConfig.
    default_site = "petstore.backoffice.site.PetstoreAdminSite"
