"""The app of pets and categories."""

from django.apps import AppConfig


class InventoryConfig(AppConfig):
    name = "inventory"

    def start_worker(self) -> None:
        """Have a process that serves keep the count of the stock."""
        from inventory import stock

        stock.count_from_now_on()
