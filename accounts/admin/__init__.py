"""Plans, accounts, keys, refusals, events and staff in the back office."""

from accounts.admin import accounts, api_keys, dashboard, events, plans, refusals, staff

__all__ = ["accounts", "api_keys", "dashboard", "events", "plans", "refusals", "staff"]
