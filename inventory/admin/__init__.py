"""Pets, categories and orders in the back office."""

from inventory.admin import categories, dashboard, orders, pets

__all__ = ["categories", "dashboard", "orders", "pets"]
