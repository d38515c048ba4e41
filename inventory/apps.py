"""App configuration."""

from django.apps import AppConfig


class InventoryConfig(AppConfig):
    name = "inventory"

    def start_worker(self) -> None:
        from inventory import stock

        stock.start_counting()
