"""Pets, categories and orders in the back office."""

from inventory.admin import categories, orders, pets

__all__ = ["categories", "orders", "pets"]
