"""Plans, accounts, keys, refusals and staff in the back office."""

from accounts.admin import accounts, keys, plans, refusals, staff

__all__ = ["accounts", "keys", "plans", "refusals", "staff"]
