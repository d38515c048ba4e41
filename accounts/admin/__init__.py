"""The admin of plans, accounts, keys, events, rejections and staff."""

from accounts.admin import accounts, api_keys, dashboard, events, plans, rejections, staff

__all__ = ["accounts", "api_keys", "dashboard", "events", "plans", "rejections", "staff"]
