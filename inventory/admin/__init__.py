"""Pets, categories and orders in the back office."""

from inventory.admin import dashboard, orders, pets

__all__ = ["dashboard", "orders", "pets"]
