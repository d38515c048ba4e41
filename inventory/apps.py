"""The app of pets and categories."""

from django.apps import AppConfig


class InventoryConfig(AppConfig):
    """What the shop keeps and sells."""

    name = "inventory"
