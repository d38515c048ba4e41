"""The state of a key, as pages describe it."""

from datetime import datetime, timedelta

from accounts.models import ApiKey
from petstore.backoffice.text import format_time

EXPIRES_SOON = timedelta(days=7)


def get_key_state(key: ApiKey, now: datetime) -> tuple[str, str]:
    """Return the state, one of STATE_COLOURS, and the text to display."""
    state = key.get_state(now)
    if state != "active":
        return state, state.capitalize()
    if key.account.suspended_at is not None:
        return "suspended", "Account suspended"
    if ban_end := key.get_ban_end(now):
        return "banned", f"Banned until {format_time(ban_end)}"
    if key.expires_at is not None and key.expires_at <= now + EXPIRES_SOON:
        return "soon", "Expires soon"
    return "active", "Active"
