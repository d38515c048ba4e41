"""The admin of pets, categories and orders."""

from inventory.admin import dashboard, orders, pets

__all__ = ["dashboard", "orders", "pets"]
