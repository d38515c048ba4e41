"""Plans, accounts, keys and staff in the back office."""

from accounts.admin import accounts, keys, plans, staff

__all__ = ["accounts", "keys", "plans", "staff"]
