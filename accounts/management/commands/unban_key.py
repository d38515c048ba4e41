"""Lift the ban on an API key."""

from accounts.management.base import KeyActionCommand
from accounts.models import ApiKey


class Command(KeyActionCommand):
    help = "Lift the ban on a key."
    examples = 'manage.py unban_key 0Zl4dF9kQ2mXa7 --reason "They fixed their retries"'
    action, outcome = ApiKey.unban, "no longer banned"
