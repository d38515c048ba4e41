"""The admin of plans, accounts, keys, refusals, events and staff."""

from accounts.admin import accounts, api_keys, dashboard, events, plans, refusals, staff

__all__ = ["accounts", "api_keys", "dashboard", "events", "plans", "refusals", "staff"]
