"""The project's own app: its commands, its templates' folder, and its back office."""

from django.apps import AppConfig
from django.contrib.admin import apps as admin_apps


class PetstoreConfig(AppConfig):
    """What every request shares."""

    name = "petstore"


class PetstoreAdminConfig(admin_apps.AdminConfig):
    """Django's admin, with our own site as the default one."""

    default = False  # Or else the entry "petstore" in INSTALLED_APPS would mean this one.
    default_site = "petstore.backoffice.site.PetstoreAdminSite"
