"""Pets, categories and orders in the back office."""

from inventory.admin import dashboard, finders, orders, pets

__all__ = ["dashboard", "finders", "orders", "pets"]
