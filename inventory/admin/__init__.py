"""Pets, categories and orders in the back office."""

from inventory.admin import account_orders, categories, dashboard, orders, pets

__all__ = ["account_orders", "categories", "dashboard", "orders", "pets"]
