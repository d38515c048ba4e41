"""Plans, accounts, keys, refusals and staff in the back office."""

from accounts.admin import accounts, api_keys, dashboard, finders, plans, refusals, staff

__all__ = ["accounts", "api_keys", "dashboard", "finders", "plans", "refusals", "staff"]
