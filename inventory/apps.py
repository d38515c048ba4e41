"""The app of pets and categories."""

from django.apps import AppConfig

from petstore.serving.signals import worker_started


class InventoryConfig(AppConfig):
    name = "inventory"

    def ready(self) -> None:
        """Have a process that serves keep the count of the stock."""
        from inventory import stock

        worker_started.connect(stock.count_from_now_on)
