"""Pets, categories and orders in the back office."""

from inventory.admin import categories, dashboard, finders, orders, pets

__all__ = ["categories", "dashboard", "finders", "orders", "pets"]
