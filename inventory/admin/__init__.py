"""Pets, categories and orders in the back office."""

from inventory.admin import categories, dashboard, events, finders, orders, pets

__all__ = ["categories", "dashboard", "events", "finders", "orders", "pets"]
