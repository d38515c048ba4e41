"""Revoke an API key."""

from accounts.management.base import KeyActionCommand
from accounts.models import ApiKey


class Command(KeyActionCommand):
    help = "Revoke a key immediately and permanently."
    examples = 'manage.py revoke_key 0Zl4dF9kQ2mXa7 --reason "Found in a public repository"'
    action, outcome = ApiKey.revoke, "revoked"
