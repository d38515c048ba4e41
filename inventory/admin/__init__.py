"""The admin of pets, categories and orders."""

from inventory.admin import categories, dashboard, orders, pets

__all__ = ["categories", "dashboard", "orders", "pets"]
